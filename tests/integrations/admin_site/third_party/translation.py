"""Fields that modeltranslation translates."""

from modeltranslation.translator import TranslationOptions, register

from tests.integrations.admin_site.third_party.models import Suffixed


@register(Suffixed)
class SuffixedOptions(TranslationOptions):
    fields = ("name",)
