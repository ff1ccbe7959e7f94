"""The admin of the shop: what real admins use, together."""

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.admin import GenericTabularInline
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html

from tests.integrations.back_office import models

site = admin.AdminSite("back_office")
site.enable_nav_sidebar = False  # it has a third of what a page costs
site.register(User, UserAdmin)
site.register(Group, GroupAdmin)


class Dear(admin.SimpleListFilter):
    title = "how dear"
    parameter_name = "dear"

    def lookups(self, request, model_admin):
        return [("yes", "dear"), ("no", "cheap")]

    def queryset(self, request, queryset):
        if self.value() == "yes":
            return queryset.filter(price__gte=3)
        return queryset.filter(price__lt=3) if self.value() == "no" else queryset


class ProductForm(forms.ModelForm):
    reason = forms.CharField(required=False, help_text="Why it is changed.")

    class Meta:
        model = models.Product
        exclude: list[str] = []

    def clean(self):
        cleaned = super().clean()
        if cleaned.get("is_live") and not cleaned.get("stock"):
            raise ValidationError("What is live has to be in stock.")
        return cleaned


class VariantInline(admin.TabularInline):
    model = models.Variant
    extra = 1


class NoteInline(GenericTabularInline):
    model = models.Note
    extra = 0


@admin.register(models.Product, site=site)
class ProductAdmin(admin.ModelAdmin):
    form = ProductForm
    list_display = ["name", "sku", "price", "margin", "is_live", "category__name", "shouted", "linked"]
    list_filter = ["is_live", "kind", "category", Dear, "released", "tags"]
    search_fields = ["name", "=sku", "category__name"]
    date_hierarchy = "sold_at"
    prepopulated_fields = {"slug": ["name"]}
    autocomplete_fields = ["category"]
    raw_id_fields = ["supplier"]
    filter_horizontal = ["tags"]
    inlines = [VariantInline, NoteInline]
    list_per_page = 4
    actions = ["make_live", "export", "reprice"]

    @admin.display(description="Margin", ordering="cost", empty_value="unknown")
    def margin(self, row):
        return None if row.cost is None else row.price - row.cost

    @admin.display(description="Link")
    def linked(self, row):
        return format_html('<a href="{}">look <b>here</b></a>', row.get_absolute_url())

    def get_queryset(self, request):
        rows = super().get_queryset(request)
        return rows if request.user.is_superuser else rows.exclude(name="Product 5")

    def get_fieldsets(self, request, obj=None):
        money = ["price", "cost"] if request.user.is_superuser else ["price"]
        return [
            (
                None,
                {"fields": ["name", ("sku", "slug"), "description", "category", "supplier", "tags", "kind", "size"]},
            ),
            ("Money", {"fields": [*money, "stock", "is_live", "is_checked", "reason"]}),
            (
                "More",
                {
                    "classes": ["collapse"],
                    "fields": [
                        "data",
                        "released",
                        "sold_at",
                        "opens",
                        "lasts",
                        "homepage",
                        "contact",
                        "manual",
                        "changed",
                        "age",
                    ],
                },
            ),
        ]

    def get_readonly_fields(self, request, obj=None):
        read_only = ["changed", "age"]
        return [*read_only, "sku"] if obj is not None and obj.is_live else read_only

    @admin.display(description="Age")
    def age(self, row):
        return "new" if row.pk is None else f"old {row.name}"

    def save_model(self, request, obj, form, change):
        obj.changed_by = request.user
        super().save_model(request, obj, form, change)

    def save_formset(self, request, form, formset, change):
        for row in formset.save(commit=False):
            if isinstance(row, models.Variant) and row.price is None:
                row.price = form.instance.price
            row.save()
        for row in formset.deleted_objects:
            row.delete()
        formset.save_m2m()

    def delete_model(self, request, obj):
        messages.info(request, f"Good bye, {obj}.")
        super().delete_model(request, obj)

    def has_delete_permission(self, request, obj=None):
        return super().has_delete_permission(request, obj) and (obj is None or not obj.is_live)

    def change_view(self, request, object_id, form_url="", extra_context=None):
        if request.method == "POST" and request.POST.get("name") == "refused":
            messages.error(request, "Not this name.")
        return super().change_view(request, object_id, form_url, {"seen": True, **(extra_context or {})})

    def response_change(self, request, obj):
        messages.success(request, f"{obj} is at {obj.price}.")
        return super().response_change(request, obj)

    def log_change(self, request, obj, message):
        return super().log_change(request, obj, [*message, {"changed": {"fields": ["and logged"]}}])

    @admin.action(description="Make live", permissions=["change"])
    def make_live(self, request, queryset):
        self.message_user(request, f"{queryset.update(is_live=True)} made live.")

    @admin.action(description="Export as CSV")
    def export(self, request, queryset):
        lines = "".join(f"{row.sku},{row.price}\r\n" for row in queryset)
        return HttpResponse(
            lines, content_type="text/csv", headers={"Content-Disposition": 'attachment; filename="p.csv"'}
        )

    @admin.action(description="Set a price", permissions=["change"])
    def reprice(self, request, queryset):
        form = PriceForm(request.POST if "apply" in request.POST else None)
        if form.is_valid():
            queryset.update(price=form.cleaned_data["price"])
            self.message_user(request, "Repriced.", messages.WARNING)
            return None
        context = {**self.admin_site.each_context(request), "form": form, "rows": queryset, "title": "Set a price"}
        return TemplateResponse(request, "back_office/reprice.html", context)


class PriceForm(forms.Form):
    price = forms.DecimalField(max_digits=8, decimal_places=2, min_value=0)


class LineInline(admin.StackedInline):
    model = models.OrderLine
    extra = 0
    min_num = 1
    validate_min = True
    raw_id_fields = ["product"]


@admin.register(models.Order, site=site)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "customer", "placed", "status"]
    list_editable = ["status"]
    list_filter = ["status", ("customer", admin.RelatedOnlyFieldListFilter)]
    date_hierarchy = "placed"
    inlines = [LineInline]
    radio_fields = {"status": admin.HORIZONTAL}


@admin.register(models.Customer, site=site)
class CustomerAdmin(admin.ModelAdmin):
    list_display = ["name", "email", "api_key"]
    search_fields = ["name"]

    def get_exclude(self, request, obj=None):
        return None if request.user.is_superuser else ["salary"]


@admin.register(models.Category, site=site)
class CategoryAdmin(admin.ModelAdmin):
    search_fields = ["name"]
    list_display = ["__str__", "parent"]


class MembershipInline(admin.TabularInline):
    model = models.Membership
    autocomplete_fields = ["person"]


class HomeInline(admin.TabularInline):
    model = models.Match
    fk_name = "home"
    extra = 0


class GuestInline(admin.TabularInline):
    model = models.Match
    fk_name = "guest"
    extra = 0


@admin.register(models.Club, site=site)
class ClubAdmin(admin.ModelAdmin):
    inlines = [MembershipInline, HomeInline, GuestInline]
    filter_vertical = ["fans"]


class BadgeInline(admin.TabularInline):
    model = models.Badge


@admin.register(models.Person, site=site)
class PersonAdmin(admin.ModelAdmin):
    search_fields = ["name"]
    inlines = [BadgeInline]
    save_as = True


for model in (models.Tag, models.Supplier, models.Label, models.LiveProduct, models.Download, models.OldCategory):
    site.register(model)
