"""Every documented option of ModelAdmin and InlineModelAdmin, one ModelAdmin for each value.

An admin site takes a model once, so that the lines of a model are spread over as many sites as it has lines.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import django
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.contrib.contenttypes.admin import GenericStackedInline, GenericTabularInline
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db import models as db
from django.db.models import F, Model
from django.db.models.functions import Lower
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html

from tests.integrations.back_office.models import (
    Badge,
    Category,
    Club,
    Customer,
    Download,
    Label,
    LiveProduct,
    Match,
    Membership,
    Note,
    OldCategory,
    Order,
    OrderLine,
    Person,
    Product,
    Supplier,
    Tag,
    Variant,
)
from tests.integrations.back_office.shop import Dear

SHORT = ["name", "sku", "price", "category"]
"""Fields that a product needs."""


@dataclass(frozen=True)
class Line:
    """A line of the matrix."""

    group: str
    name: str
    site: admin.AdminSite
    model: type[Model]

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


sites: list[admin.AdminSite] = []
lines: list[Line] = []


def line(group: str, name: str, model: type[Model], base: type[admin.ModelAdmin] = admin.ModelAdmin, /, **options: Any):
    """Add a ModelAdmin with these options to the first site that has none of the model."""
    site = next((each for each in sites if model not in each._registry), None)
    if site is None:
        site = admin.AdminSite(f"matrix{len(sites)}")
        site.enable_nav_sidebar = False
        sites.append(site)
    if group not in {"form", "inlines"} and model is Product and "get_fieldsets" not in options:
        options.setdefault("fields", SHORT)  # other fields would be read, and saved, for nothing
    site.register(model, type("LineAdmin", (base,), options))
    lines.append(Line(group, name, site, model))


def each(group: str, model: type[Model], option: str, values: Iterable[Any], **others: Any) -> None:
    """Add a line for each value of an option."""
    for value in values:
        line(group, f"{option} = {told(value)}", model, **{option: value}, **others)


def told(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(told, value))}]"
    return getattr(value, "__name__", str(value))


def by_hook(group: str, model: type[Model], **hooks: Any) -> None:
    """Add a line for each method."""
    for name, hook in hooks.items():
        line(group, name, model, **{name: hook})


# Lists.


@admin.display(description="Twice", ordering="price")
def twice(row):
    return None if row.price is None else row.price * 2  # a new row has none yet


@admin.display(boolean=True)
def is_dear(row):
    return row.price > 2


@admin.display(empty_value="nothing")
def no_cost(row):
    return row.cost


@admin.display(description="Drawn")
def drawn(row):
    return format_html('<a href="/x/"><img src="x.png" alt="{} & co"></a>', row.name)


class Unasked(admin.SimpleListFilter):
    """A filter without choices, which is not shown."""

    title = "unasked"
    parameter_name = "unasked"

    def lookups(self, request, model_admin):
        return []

    def queryset(self, request, queryset):
        return queryset


class Fixed(admin.SimpleListFilter):
    """A filter with a default, and no choice of all."""

    title = "fixed"
    parameter_name = "fixed"

    def lookups(self, request, model_admin):
        return [("live", "Live"), ("dead", "Dead")]

    def queryset(self, request, queryset):
        return queryset.filter(is_live=self.value() != "dead")

    def choices(self, changelist):
        for value, title in self.lookup_choices:
            query = changelist.get_query_string({self.parameter_name: value})
            yield {"selected": (self.value() or "live") == value, "query_string": query, "display": title}


class Again(admin.SimpleListFilter):
    """A filter with the name of a field's filter, as packages add it."""

    title = "kind again"
    parameter_name = "kind"

    def lookups(self, request, model_admin):
        return [("none", "None of them")]

    def queryset(self, request, queryset):
        return queryset.none() if self.value() == "none" else queryset


class Reversed(ChangeList):
    def get_queryset(self, request, *args, **kwargs):
        return super().get_queryset(request, *args, **kwargs).order_by("-pk")


class SmallPages(Paginator):
    def __init__(self, object_list, per_page, *args, **kwargs):
        super().__init__(object_list, 2, *args, **kwargs)


each(
    "list",
    Product,
    "list_display",
    [
        ["name"],
        ["__str__"],
        ["id", "name", "kind", "size", "is_live", "is_checked", "data", "weight"],
        ["released", "sold_at", "opens", "lasts", "changed", "homepage"],
        [twice, is_dear, no_cost],
        ["name", "category__name", "category__parent", "supplier__name"],
        ["name", "shouted", "manual"],
        ["name", drawn],
        ["name", lambda row: f"<{row.sku}>", lambda row: row.stock],
    ],
)
line("list", "list_display, a column named pk", Product, list_display=["pk", "name"])
each("list", Product, "list_display_links", [None, ["sku"], ["name", "sku"]], list_display=["name", "sku"])
line(
    "list",
    "list_display_links, no actions",
    Product,
    list_display=["name", "sku"],
    list_display_links=None,
    actions=None,
)
each("list", Product, "actions", [None, []], list_display=["name"])
each(
    "list",
    Product,
    "list_editable",
    [["price"], ["is_live", "kind"], ["category", "released"]],
    list_display=["name", "price", "is_live", "kind", "category", "released"],
)
each(
    "list",
    Product,
    "list_filter",
    [
        ["is_live"],
        ["is_checked"],
        ["kind", "size"],
        ["category"],
        ["category__name"],
        ["category__parent"],
        ["supplier"],
        ["tags"],
        ["released", "sold_at"],
        ["name"],
        [("supplier", admin.EmptyFieldListFilter), ("slug", admin.EmptyFieldListFilter)],
        [("category", admin.RelatedOnlyFieldListFilter), ("tags", admin.RelatedOnlyFieldListFilter)],
        [("name", admin.AllValuesFieldListFilter)],
        [("kind", admin.ChoicesFieldListFilter), ("is_live", admin.BooleanFieldListFilter)],
        [("sold_at", admin.DateFieldListFilter)],
        [Dear, Unasked],
        [Fixed],
        ["kind", "is_live", Dear],
        ["kind", Again],
        [Again, "kind"],
    ],
)
each(
    "list",
    Product,
    "ordering",
    [["-price"], [F("weight").desc(nulls_last=True)], [Lower("sku").desc()], ["category", "-name"]],
)
line("list", "ordering, none of the model", Tag, list_display=["name"])
each("list", Product, "sortable_by", [[], ["name"]], list_display=["name", "price"])
each("list", Product, "date_hierarchy", ["released", "sold_at", "added"])
line("list", "date_hierarchy by a path", OrderLine, date_hierarchy="order__placed")
each(
    "list",
    Product,
    "search_fields",
    [
        ["name"],
        ["^name"],
        ["=sku"],
        ["name__iexact", "sku__endswith"],
        ["category__name", "tags__name"],
        ["variant__name"],
        ["pk"],
    ],
    search_help_text="Words.",
)
each("list", Product, "list_per_page", [2, 100])
each("list", Product, "list_max_show_all", [1, 100], list_per_page=2)
# Django 6.1 deprecates True.
each(
    "list",
    Product,
    "list_select_related",
    [*([True] if django.VERSION < (6, 1) else []), False, ["category"]],
    list_display=["name", "category"],
)
each("list", Product, "show_facets", list(admin.ShowFacets), list_filter=["is_live", "kind"])
each("list", Product, "show_full_result_count", [True, False], search_fields=["name"])
each("list", Product, "empty_value_display", ["(none)"], list_display=["name", "cost", no_cost])
each("list", Product, "paginator", [SmallPages])
each("list", Product, "preserve_filters", [True, False], list_filter=["kind"])
by_hook(
    "list",
    Product,
    get_list_display=lambda self, request: ["name", "cost"] if request.user.is_superuser else ["name"],
    get_list_display_links=lambda self, request, list_display: None,
    get_list_filter=lambda self, request: ["kind"] if request.user.is_superuser else [],
    get_list_select_related=lambda self, request: ["category"],
    get_search_fields=lambda self, request: ["sku"],
    get_sortable_by=lambda self, request: {"name"},
    get_ordering=lambda self, request: ["-stock"],
    get_changelist=lambda self, request, **kwargs: Reversed,
    get_queryset=lambda self, request: self.model.objects.filter(stock__gt=1),
    get_paginator=lambda self, request, queryset, per_page, **kwargs: SmallPages(queryset, per_page, **kwargs),
    lookup_allowed=lambda self, lookup, value, request=None: lookup.startswith("stock"),
    get_empty_value_display=lambda self: "-/-",
)


class EditableForm(forms.ModelForm):
    def clean_price(self):
        raise ValidationError("Not in a list.")


class StrictList(forms.BaseModelFormSet):
    def clean(self):
        raise ValidationError("No list is saved.")


line(
    "list",
    "get_changelist_form",
    Product,
    list_display=["name", "price"],
    list_editable=["price"],
    get_changelist_form=lambda self, request, **kwargs: EditableForm,
)
line(
    "list",
    "get_changelist_formset",
    Product,
    list_display=["name", "price"],
    list_editable=["price"],
    get_changelist_formset=lambda self, request, **kwargs: forms.modelformset_factory(
        Product, formset=StrictList, fields=["price"], extra=0
    ),
)


def found_by_stock(self, request, queryset, search_term):
    return (queryset.filter(stock=search_term), False) if search_term.isdigit() else (queryset, True)


line("list", "get_search_results", Product, search_fields=["name"], get_search_results=found_by_stock)
line(
    "list",
    "get_search_results with duplicates",
    Product,
    search_fields=["tags__name"],
    get_search_results=lambda self, request, queryset, term: (queryset.filter(tags__name__contains=term), True),
)

# Forms.


class OwnForm(forms.ModelForm):
    reason = forms.CharField(help_text="Why.")
    when = forms.SplitDateTimeField(required=False, widget=admin.widgets.AdminSplitDateTime)

    class Meta:
        model = Product
        fields = SHORT

    def clean_name(self):
        return self.cleaned_data["name"].upper()

    def clean(self):
        if self.cleaned_data.get("reason") == "7" and self.cleaned_data.get("price") == 7:
            self.add_error(None, "Seven twice.")


def form_with_request(self, request, obj=None, change=False, **kwargs):
    form = admin.ModelAdmin.get_form(self, request, obj, change=change, **kwargs)
    if "name" in form.base_fields:  # who may only look has a form without fields
        form.base_fields["name"].initial = f"by {request.user.get_username()}"
    return form


each("form", Product, "fields", [SHORT, [("name", "sku"), ("price", "category")], [*SHORT, "tags", "data", "sold_at"]])
each("form", Product, "exclude", [["cost", "stock"], ["description"]])
each("form", Product, "form", [OwnForm])
each(
    "form",
    Product,
    "fieldsets",
    [
        [(None, {"fields": SHORT}), ("Wide", {"fields": ["size", ("kind", "stock")], "classes": ["wide", "collapse"]})],
        [("Described", {"fields": SHORT, "description": "<b>Read</b> this."})],
    ],
)
each(
    "form",
    Product,
    "formfield_overrides",
    [
        {db.CharField: {"widget": forms.Textarea}},
        {db.DateTimeField: {"widget": forms.DateTimeInput, "form_class": forms.DateTimeField}},
    ],
)
each("form", Product, "filter_horizontal", [["tags"]])
each("form", Product, "filter_vertical", [["tags"]])
each(
    "form", Product, "radio_fields", [{"kind": admin.VERTICAL}, {"category": admin.HORIZONTAL, "size": admin.VERTICAL}]
)
each("form", Product, "raw_id_fields", [["category"], ["supplier", "tags"]])
each("form", Product, "autocomplete_fields", [["category"], ["supplier", "tags"]])
each("form", Product, "prepopulated_fields", [{"slug": ["name"]}, {"slug": ["name", "sku"]}])
each("form", Product, "view_on_site", [True, False, lambda self, row: f"/elsewhere/{row.pk}/"])
line(
    "form",
    "readonly_fields",
    Product,
    fields=[*SHORT, "cost", "changed", "own", twice, "is_checked", "tags"],
    readonly_fields=["cost", "changed", "own", twice, "is_checked", "tags"],
    own=lambda self, row: f"own {row.pk}",
)
line("form", "readonly_fields, all of them", Product, fields=["name", "category"], readonly_fields=["name", "category"])
line("form", "save_as", Product, save_as=True)
line("form", "save_as without save_as_continue", Product, save_as=True, save_as_continue=False)
line("form", "save_on_top", Product, save_on_top=True)
line("form", "show only a field with a default", Supplier)
line("form", "keys as texts", Label)
line("form", "a key that can be changed", Badge)
line("form", "a table with a parent's", Download)
line("form", "a proxy", LiveProduct)
line("form", "an unmanaged table", OldCategory)
line("form", "a generic relation", Note)
line("form", "many to many with a table in between", Club)
line("form", "limit_choices_to", Order)
by_hook(
    "form",
    Product,
    get_fields=lambda self, request, obj=None: SHORT if obj is None else [*SHORT, "stock"],
    get_exclude=lambda self, request, obj=None: None if request.user.is_superuser else ["cost"],
    get_fieldsets=lambda self, request, obj=None: [
        ("By row", {"fields": [*SHORT, *([] if obj is None else ["weight"])]})
    ],
    get_readonly_fields=lambda self, request, obj=None: ["sku"] if obj is not None and obj.is_live else [],
    get_form=form_with_request,
    get_prepopulated_fields=lambda self, request, obj=None: {} if obj else {"slug": ["name"]},
    get_autocomplete_fields=lambda self, request: ["category"],
    get_changeform_initial_data=lambda self, request: {"name": "Begun", "stock": 3, "kind": "toy"},
    get_object=lambda self, request, object_id, from_field=None: self.model.objects.filter(
        pk=object_id, stock__gt=1
    ).first(),
    formfield_for_foreignkey=lambda self, field, request, **kwargs: admin.ModelAdmin.formfield_for_foreignkey(
        self,
        field,
        request,
        **{**kwargs, **({"queryset": Category.objects.filter(parent=None)} if field.name == "category" else {})},
    ),
    formfield_for_manytomany=lambda self, field, request, **kwargs: admin.ModelAdmin.formfield_for_manytomany(
        self, field, request, **{**kwargs, "queryset": Tag.objects.filter(name="new")}
    ),
    formfield_for_choice_field=lambda self, field, request, **kwargs: admin.ModelAdmin.formfield_for_choice_field(
        self, field, request, **{**kwargs, "choices": [("book", "Only books")]}
    ),
    formfield_for_dbfield=lambda self, field, request, **kwargs: (
        None if field.name == "weight" else admin.ModelAdmin.formfield_for_dbfield(self, field, request, **kwargs)
    ),
    render_change_form=lambda self, request, context, **kwargs: admin.ModelAdmin.render_change_form(
        self, request, {**context, "title": "Mine"}, **kwargs
    ),
)

# Saving.


def refuse(words):
    def hook(self, request, *args, **kwargs):
        raise ValidationError(words)

    return hook


def save_form(self, request, form, change):
    row = form.save(commit=False)
    row.description = "by save_form"
    return row


def save_model(self, request, obj, form, change):
    obj.changed_by = request.user
    obj.description = f"changed {sorted(form.changed_data)}" if change else "added"
    admin.ModelAdmin.save_model(self, request, obj, form, change)


def save_related(self, request, form, formsets, change):
    admin.ModelAdmin.save_related(self, request, form, formsets, change)
    form.instance.tags.add(Tag.objects.get_or_create(name="related")[0])


def forbidden(self, request, *args, **kwargs):
    raise PermissionDenied


by_hook(
    "saving",
    Product,
    save_form=save_form,
    save_model=save_model,
    save_related=save_related,
    construct_change_message=lambda self, request, form, formsets, add=False: "In words of its own.",
    log_addition=lambda self, request, obj, message: admin.ModelAdmin.log_addition(self, request, obj, "Begun."),
    log_change=lambda self, request, obj, message: None,
    response_add=lambda self, request, obj, post_url_continue=None: HttpResponseRedirect("/elsewhere/"),
    response_change=lambda self, request, obj: HttpResponse("A page instead."),
    message_user=lambda self, request, message, level=messages.INFO, **kwargs: messages.add_message(
        request, level, f"Said: {message}"
    ),
)
line("saving", "save_model without permission", Product, save_model=forbidden)
line("saving", "save_model that breaks", Product, save_model=refuse("Too late."))
line("saving", "save_related that breaks", Product, save_related=refuse("Much too late."))
line(
    "saving",
    "save_model that saves nothing",
    Product,
    save_model=lambda self, request, obj, form, change: Category.objects.first(),
)

# Inlines.


def inline(model: type[Model], base: type = admin.TabularInline, **options: Any) -> type:
    return type("LineInline", (base,), {"model": model, **options})


class Strict(forms.BaseInlineFormSet):
    def clean(self):
        super().clean()
        if sum(bool(form.cleaned_data.get("name")) for form in self.forms if hasattr(form, "cleaned_data")) > 2:
            raise ValidationError("Two at most.")


for kind in (admin.TabularInline, admin.StackedInline):
    for options in (
        {},
        {"extra": 0},
        {"extra": 1, "min_num": 1},
        {"max_num": 2},
        {"max_num": 0},
        {"can_delete": False},
        {"show_change_link": True},
        {"formset": Strict},
        {"fields": ["name"]},
        {"readonly_fields": ["price"]},
        {"ordering": ["-name"]},
        {"verbose_name_plural": "Kinds", "classes": ["collapse"]},
        {"has_add_permission": lambda self, request, obj: False},
        {"has_change_permission": lambda self, request, obj=None: False},
        {"has_delete_permission": lambda self, request, obj=None: False},
        {
            "has_view_permission": lambda self, request, obj=None: False,
            "has_change_permission": lambda self, request, obj=None: False,
        },
        {"get_extra": lambda self, request, obj=None, **kwargs: 0 if obj else 2},
        {"get_min_num": lambda self, request, obj=None, **kwargs: 1},
        {"get_max_num": lambda self, request, obj=None, **kwargs: 3},
        {"get_queryset": lambda self, request: Variant.objects.filter(name="red")},
        {
            "get_formset": lambda self, request, obj=None, **kwargs: super(self._Line, self).get_formset(
                request, obj, **{**kwargs, "extra": 1}
            )
        },
    ):
        made = inline(Variant, kind, **options)
        made._Line = made
        line("inlines", f"{kind.__name__} {sorted(options)}", Product, fields=SHORT, inlines=[made])
for kind in (GenericTabularInline, GenericStackedInline):
    line("inlines", kind.__name__, Product, fields=SHORT, inlines=[inline(Note, kind, extra=1)])
line(
    "inlines",
    "fk_name, two of one model",
    Club,
    inlines=[inline(Match, fk_name="home"), inline(Match, fk_name="guest")],
)
line("inlines", "a table in between", Club, inlines=[inline(Membership, extra=1)])
line("inlines", "raw ids", Club, inlines=[inline(Membership, raw_id_fields=["person"])])
line("inlines", "autocompletion", Club, inlines=[inline(Membership, autocomplete_fields=["person"])])
line("inlines", "keys by hand", Person, inlines=[inline(Badge)])
line("inlines", "radio_fields and read-only", Order, inlines=[inline(OrderLine, readonly_fields=["quantity"])])
line("inlines", "the same table", Category, inlines=[inline(Category, extra=1)])
line("inlines", "the table of many to many", Product, fields=SHORT, inlines=[inline(Product.tags.through)])
by_hook(
    "inlines",
    Product,
    get_inlines=lambda self, request, obj: [] if obj is None else [inline(Variant)],
    get_inline_instances=lambda self, request, obj=None: [inline(Variant)(self.model, self.admin_site)],
    get_formset_kwargs=lambda self, request, obj, inline, prefix: {
        **admin.ModelAdmin.get_formset_kwargs(self, request, obj, inline, prefix),
        "initial": [{"name": "begun"}],
    },
    get_formsets_with_inlines=lambda self, request, obj=None: (
        (each.get_formset(request, obj), each) for each in self.get_inline_instances(request, obj) if obj is not None
    ),
)
line(
    "inlines",
    "get_formset_kwargs with an inline",
    Product,
    fields=SHORT,
    inlines=[inline(Variant, extra=1)],
    get_formset_kwargs=lambda self, request, obj, inline, prefix: {
        **admin.ModelAdmin.get_formset_kwargs(self, request, obj, inline, prefix),
        "initial": [{"name": "begun"}],
    },
)

# Deleting.


def delete_more(self, request, obj):
    messages.warning(request, f"{obj} goes.")
    obj.delete()


line("deleting", "what is protected", Customer)
line("deleting", "what is restricted", Product, fields=SHORT)
line("deleting", "cascades", Club)
line("deleting", "a tree", Category)
line("deleting", "delete_model", Tag, delete_model=delete_more)
line(
    "deleting",
    "delete_queryset",
    Tag,
    delete_queryset=lambda self, request, queryset: queryset.filter(name="x").delete(),
)
line(
    "deleting",
    "get_deleted_objects",
    Tag,
    get_deleted_objects=lambda self, objs, request: (["All"], {"things": 7}, set(), []),
)
line(
    "deleting",
    "get_deleted_objects that protects",
    Tag,
    get_deleted_objects=lambda self, objs, request: ([], {}, set(), ["This one"]),
)
line(
    "deleting",
    "get_deleted_objects that lacks a permission",
    Tag,
    get_deleted_objects=lambda self, objs, request: ([], {}, {"thing"}, []),
)
line(
    "deleting",
    "response_delete",
    Tag,
    response_delete=lambda self, request, display, pk: HttpResponseRedirect("/gone/"),
)
line("deleting", "log_deletions", Tag, log_deletions=lambda self, request, queryset: None)
if django.VERSION >= (6, 1):
    line("deleting", "delete_confirmation_max_display", Club, delete_confirmation_max_display=1)

# Permissions.

for name in ("module", "view", "add", "change", "delete"):
    permission = f"has_{name}_permission"
    line("permissions", f"no {permission}", Product, **{permission: lambda self, request, obj=None: False})
line(
    "permissions",
    "to view by row",
    Product,
    has_view_permission=lambda self, request, obj=None: obj is None or obj.stock > 1,
    has_change_permission=lambda self, request, obj=None: False,
)
line(
    "permissions",
    "to change by row",
    Product,
    has_change_permission=lambda self, request, obj=None: obj is None or obj.is_live,
)
line(
    "permissions",
    "to delete by row",
    Product,
    has_delete_permission=lambda self, request, obj=None: obj is None or obj.is_live,
)
line(
    "permissions",
    "only to look",
    Order,
    inlines=[inline(OrderLine)],
    **{f"has_{name}_permission": lambda self, request, obj=None: False for name in ("add", "change", "delete")},
)

# Actions.


@admin.action(description="As a function", permissions=["view"])
def as_function(model_admin, request, queryset):
    model_admin.message_user(request, f"{queryset.count()} rows.")


@admin.action(description="With no permission", permissions=["nobody"])
def for_nobody(model_admin, request, queryset):
    """Not offered."""


line("actions", "a function", Product, actions=[as_function])
line("actions", "a method", Product, actions=["own"], own=lambda self, request, queryset: queryset.update(stock=9))
line(
    "actions",
    "permissions",
    Product,
    actions=[as_function, for_nobody],
    has_nobody_permission=lambda self, request: False,
)
line("actions", "none selected on all pages", Product, actions=[as_function], list_per_page=2)
line(
    "actions",
    "position and counter",
    Product,
    actions=[as_function],
    actions_on_top=False,
    actions_on_bottom=True,
    actions_selection_counter=False,
)
if django.VERSION >= (6, 1):
    from django.contrib.admin import ActionLocation

    def get_actions(self, request, action_location=ActionLocation.CHANGE_LIST):
        found = admin.ModelAdmin.get_actions(self, request, action_location=action_location)
        return {name: action for name, action in found.items() if request.user.is_superuser}

    @admin.action(description="On a form", location=[ActionLocation.CHANGE_FORM])
    def on_form(model_admin, request, queryset):
        model_admin.message_user(request, f"{queryset.count()} from its form.")

    @admin.action(description="One", description_plural="Many")
    def one_or_many(model_admin, request, queryset):
        model_admin.message_user(request, f"{queryset.count()} of them.")

    line("actions", "location", Product, actions=[on_form])
    line("actions", "description_plural", Product, actions=[one_or_many])
else:

    def get_actions(self, request):
        return admin.ModelAdmin.get_actions(self, request) if request.user.is_superuser else {}


line("actions", "get_actions", Product, get_actions=get_actions)


def with_more_actions(self, request, **kwargs):
    # As packages do, whose actions are in no list.
    found = admin.ModelAdmin.get_actions(self, request, **kwargs)
    added = {"as_function": (as_function, "as_function", "Added to %(verbose_name_plural)s")}
    return {**found, **(added if request.user.has_perm("back_office.change_product") else {})}


line("actions", "get_actions that adds one", Product, get_actions=with_more_actions)

# Views.


def replaced(view, change):
    """Override a view: it does its work, changes what it answers, and calls the one of Django."""

    def overridden(self, request, *args, **kwargs):
        change(request)
        return getattr(admin.ModelAdmin, view)(self, request, *args, **kwargs)

    return overridden


def missing(request):
    raise Http404


for view in ("changelist_view", "changeform_view", "add_view", "change_view", "delete_view", "history_view"):
    line(
        "views",
        f"{view} that tells something",
        Product,
        **{view: replaced(view, lambda request: messages.info(request, "Seen."))},
    )
    line("views", f"{view} that refuses", Product, **{view: replaced(view, lambda request: forbidden(None, request))})
line("views", "a view that is missing", Product, change_view=replaced("change_view", missing))
line(
    "views",
    "a list that is a form",
    Tag,
    changelist_view=lambda self, request, extra_context=None: self.changeform_view(
        request, str(Tag.objects.order_by("pk").first().pk), "", extra_context
    ),
)
line(
    "views",
    "a list that leads elsewhere",
    Tag,
    changelist_view=lambda self, request, extra_context=None: HttpResponseRedirect("/elsewhere/"),
)


for each_site in sites:
    # What others autocomplete, and link to.
    for related in (Category, Supplier, Tag, Person):
        if related not in each_site._registry:
            each_site.register(related, search_fields=["name"])
