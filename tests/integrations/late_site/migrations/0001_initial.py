"""The rooms."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Make the table, and one room."""

    initial = True
    dependencies: list[tuple[str, str]] = []
    operations = [
        migrations.CreateModel(
            name="Room",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=50, unique=True)),
                ("seats", models.PositiveSmallIntegerField(default=2)),
            ],
        ),
        migrations.RunSQL("INSERT INTO late_site_room (name, seats) VALUES ('attic', 3)"),
    ]
