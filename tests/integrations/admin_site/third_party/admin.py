"""An admin for each package."""

import nested_admin
from admin_auto_filters.filters import AutocompleteFilter
from admin_confirm import AdminConfirmMixin
from adminsortable2.admin import SortableAdminMixin, SortableTabularInline
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db import models as db
from django_object_actions import DjangoObjectActions, action
from django_summernote.admin import SummernoteModelAdmin
from djangoql.admin import DjangoQLSearchMixin
from fsm_admin.mixins import FSMTransitionMixin
from guardian.admin import GuardedModelAdmin
from import_export.admin import ImportExportModelAdmin
from inline_actions.admin import InlineActionsMixin, InlineActionsModelAdminMixin
from modeltranslation.admin import TranslationAdmin
from mptt.admin import DraggableMPTTAdmin, MPTTModelAdmin, TreeRelatedFieldListFilter
from ordered_model.admin import OrderedModelAdmin
from parler.admin import TranslatableAdmin
from polymorphic.admin import (
    PolymorphicChildModelAdmin,
    PolymorphicChildModelFilter,
    PolymorphicInlineSupportMixin,
    PolymorphicParentModelAdmin,
    StackedPolymorphicInline,
)
from rangefilter.filters import DateRangeFilter, DateTimeRangeFilter, NumericRangeFilter
from reversion.admin import VersionAdmin
from safedelete.admin import SafeDeleteAdmin, SafeDeleteAdminFilter, highlight_deleted
from simple_history.admin import SimpleHistoryAdmin
from solo.admin import SingletonModelAdmin
from treebeard.admin import TreeAdmin
from treebeard.forms import movenodeform_factory

from tests.integrations.admin_site.third_party import models

if settings.THEME == "unfold":
    from unfold.sites import UnfoldAdminSite

    site = UnfoldAdminSite("third_party")
else:
    site = admin.AdminSite("third_party")
site.enable_nav_sidebar = False
PACKAGES: dict[str, list[type[db.Model]]] = {}
"""Models by the package whose admin they have."""


def register(package: str, model: type[db.Model], base: type, /, **options: object) -> None:
    PACKAGES.setdefault(package, []).append(model)
    site.register([model], type(f"{model.__name__}Admin", (base,), options))


def inline(model: type[db.Model], base: type = admin.TabularInline, **options: object) -> type:
    return type(f"{model.__name__}Inline", (base,), {"model": model, "extra": 0, **options})


register(
    "import-export", models.Imported, ImportExportModelAdmin, list_display=["name", "price"], list_filter=["price"]
)
register("reversion", models.Versioned, VersionAdmin, inlines=[inline(models.VersionedPart)])
register(
    "simple-history",
    models.Recorded,
    SimpleHistoryAdmin,
    inlines=[inline(models.RecordedPart)],
    history_list_display=["name"],
)
register("guardian", models.Guarded, GuardedModelAdmin)
register("mptt", models.Branch, MPTTModelAdmin, list_filter=[("parent", TreeRelatedFieldListFilter)])
register("mptt", models.DraggedBranch, DraggableMPTTAdmin)
for node in (models.PathNode, models.SetNode, models.ListNode):
    register("treebeard", node, TreeAdmin, form=movenodeform_factory(node))
register(
    "polymorphic",
    models.Shape,
    PolymorphicParentModelAdmin,
    base_model=models.Shape,
    child_models=[models.Circle, models.Square],
    list_filter=[PolymorphicChildModelFilter],
)
for child in (models.Circle, models.Square):
    register("polymorphic", child, PolymorphicChildModelAdmin, base_model=models.Shape)


class StrokeInline(StackedPolymorphicInline):
    model = models.Stroke

    class PenInline(StackedPolymorphicInline.Child):
        model = models.Pen

    class BrushInline(StackedPolymorphicInline.Child):
        model = models.Brush

    child_inlines = (PenInline, BrushInline)


class DrawingAdmin(PolymorphicInlineSupportMixin, admin.ModelAdmin):
    inlines = (StrokeInline,)


register("polymorphic", models.Drawing, DrawingAdmin)
register("parler", models.Translated, TranslatableAdmin, list_display=["code", "title"])
register("modeltranslation", models.Suffixed, TranslationAdmin)
register(
    "nested-admin",
    models.Outer,
    nested_admin.NestedModelAdmin,
    search_fields=["name"],
    inlines=[
        inline(
            models.Middle,
            nested_admin.NestedStackedInline,
            inlines=[inline(models.Inner, nested_admin.NestedTabularInline)],
        )
    ],
)


class SortedAdmin(SortableAdminMixin, admin.ModelAdmin):
    inlines = (inline(models.SortedPart, SortableTabularInline),)


register("adminsortable2", models.Sorted, SortedAdmin)


class ActedAdmin(DjangoObjectActions, admin.ModelAdmin):
    change_actions = ("finish",)
    changelist_actions = ("finish_all",)

    @action(label="Finish", description="Finish this one")
    def finish(self, request, obj):
        obj.is_done = True
        obj.save()
        self.message_user(request, "Finished.")

    @action(label="Finish all")
    def finish_all(self, request, queryset):
        self.message_user(request, f"{queryset.update(is_done=True)} finished.")


register("object-actions", models.Acted, ActedAdmin)


class ConfirmedAdmin(AdminConfirmMixin, admin.ModelAdmin):
    confirm_change = True
    confirm_add = True
    confirmation_fields = ("price",)


register("admin-confirm", models.Confirmed, ConfirmedAdmin)


class PressedPartInline(InlineActionsMixin, admin.TabularInline):
    model = models.PressedPart
    extra = 0
    inline_actions = ("shout",)

    def shout(self, request, obj, parent_obj=None):
        obj.name = obj.name.upper()
        obj.save()


class PressedAdmin(InlineActionsModelAdminMixin, admin.ModelAdmin):
    inlines = (PressedPartInline,)
    inline_actions = ("whisper",)
    list_display = ("name",)

    def whisper(self, request, obj, parent_obj=None):
        obj.name = obj.name.lower()
        obj.save()


register("inline-actions", models.Pressed, PressedAdmin)


class QueriedAdmin(DjangoQLSearchMixin, admin.ModelAdmin):
    search_fields = ("name",)


register("djangoql", models.Queried, QueriedAdmin)
register(
    "safedelete",
    models.Kept,
    SafeDeleteAdmin,
    list_display=[highlight_deleted, "highlight_deleted_field", *SafeDeleteAdmin.list_display],
    list_filter=["name", SafeDeleteAdminFilter, *SafeDeleteAdmin.list_filter],
    field_to_highlight="name",
)
register("solo", models.Single, SingletonModelAdmin)
register("ordered-model", models.Ordered, OrderedModelAdmin, list_display=["name", "move_up_down_links"])


class StatedAdmin(FSMTransitionMixin, admin.ModelAdmin):
    fsm_field = ("state",)
    readonly_fields = ("state",)
    list_display = ("name", "state")


register("fsm-2-admin", models.Stated, StatedAdmin)


class OuterFilter(AutocompleteFilter):
    title = "Outer"
    field_name = "outer"


register(
    "rangefilter",
    models.Ranged,
    admin.ModelAdmin,
    list_display=["name", "day"],
    list_filter=[("day", DateRangeFilter), ("moment", DateTimeRangeFilter), ("size", NumericRangeFilter), OuterFilter],
)
register("taggit", models.Tagged, admin.ModelAdmin, list_display=["name"])
register("money", models.Paid, admin.ModelAdmin, list_display=["name", "price"], list_filter=["price_currency"])
register("tinymce, ckeditor 5, summernote", models.Rich, SummernoteModelAdmin, summernote_fields=["note"])
register(
    "fields of packages",
    models.Special,
    admin.ModelAdmin,
    list_display=["name", "color", "country", "phone", "zone"],
)
register("contrib.auth", User, UserAdmin)

if settings.THEME == "unfold":
    from unfold.admin import ModelAdmin as UnfoldAdmin
    from unfold.admin import TabularInline as UnfoldInline
    from unfold.decorators import action as unfold_action

    class ThemedAdmin(UnfoldAdmin):
        list_display = ("name", "size", "is_live")
        list_filter = ("is_live",)
        search_fields = ("name",)
        autocomplete_fields = ("outer",)
        inlines = (inline(models.ThemedPart, UnfoldInline, tab=True),)
        actions_list = ("wipe",)
        actions_detail = ("shine",)
        actions_submit_line = ("publish",)
        warn_unsaved_form = True

        @unfold_action(description="Wipe")
        def wipe(self, request):
            """Of the list."""

        @unfold_action(description="Shine")
        def shine(self, request, object_id):
            """Of a row."""

        @unfold_action(description="Publish")
        def publish(self, request, obj):
            obj.is_live = True

    register("unfold", models.Themed, ThemedAdmin)
else:
    register(
        "theme",
        models.Themed,
        admin.ModelAdmin,
        list_display=["name", "size", "is_live"],
        list_filter=["is_live"],
        search_fields=["name"],
        autocomplete_fields=["outer"],
        inlines=[inline(models.ThemedPart)],
    )


def register_admins_of_packages() -> None:
    """Register what packages register at the usual site."""
    for model, made in list(admin.site._registry.items()):
        app = model._meta.app_label
        if app in {"django_celery_beat", "filer", "constance", "taggit"} and model not in site._registry:
            register(app, model, type(made))


register_admins_of_packages()
