// Draws the page; the timelines draw themselves again when theme, width or choice changes.
drawFigures();
drawExplanation();
drawTimeline();
drawRunTables();
for (const redraw of redraws) redraw();
document.documentElement.dataset.drawn = "yes";
