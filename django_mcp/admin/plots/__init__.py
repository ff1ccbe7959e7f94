"""Plots as SVG, drawn here: from numbers to markup, without a model, a request or a script.

Widths are percentages and heights pixels, so that a plot fills its column and its letters keep their size. Colours
are classes of ``django_mcp/overview.css``. The numbers are in the legend, in tooltips and in a table below the plot, so
nobody needs the colours.
"""

from django_mcp.admin.plots.bars import Bar as Bar
from django_mcp.admin.plots.bars import bars as bars
from django_mcp.admin.plots.frame import Axis as Axis
from django_mcp.admin.plots.frame import Mark as Mark
from django_mcp.admin.plots.lines import Line as Line
from django_mcp.admin.plots.lines import lines as lines
from django_mcp.admin.plots.lines import sample as sample
from django_mcp.admin.plots.sparkline import sparkline as sparkline
from django_mcp.admin.plots.stacks import Layer as Layer
from django_mcp.admin.plots.stacks import stacks as stacks
from django_mcp.admin.plots.stacks import swatch as swatch
