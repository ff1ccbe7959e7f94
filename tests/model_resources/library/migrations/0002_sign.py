from django.db import migrations, models

import tests.model_resources.library.models


class Migration(migrations.Migration):
    dependencies = (("library", "0001_initial"),)
    operations = (
        migrations.CreateModel(
            name="Sign",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", tests.model_resources.library.models.WordsField()),
            ],
        ),
    )
