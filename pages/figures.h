// Pictures in a page: a <figure> with a caption and downloads, and small curves in a row of a list.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "inspect/overview.h"
#include "inspect/picture/chart.h"
#include "pages/page_parts.h"

namespace rivulet {

// `says` is HTML behind the title; `wide`: as broad as the page allows.
std::string FigureHtml(const std::string& title, const std::string& says, const Picture& picture,
                       const std::vector<FileLink>& downloads, bool wide = false);

// A chart whose values are shown where one points, once a script runs: its points stand in `data-plot`.
std::string ChartFigure(const Chart& chart, const std::string& says, const std::vector<FileLink>& downloads);

// The curves of one run, but for those of a single point, of which there is nothing to draw. `place`: the run's id with
// its history's prefix (pages.h).
std::string CurveFigures(const std::vector<Curve>& curves, const std::string& place, const std::string& run_id);
// The smoothing and the axis of every chart of the page, hidden where no script runs.
std::string ChartKnobs();

Chart ChartOf(const Curve& curve, const std::string& label);

// `width` by 30 points, without axes, with a text alternative; "" for less than two values.
std::string SparklineSvg(const Curve& curve, double width);

// SVG and PNG at "/picture.svg?QUERY" and "/picture.png?QUERY", kept as FILE.svg and FILE.png.
std::vector<FileLink> PictureDownloads(const std::string& query, const std::string& file);
FileLink TableDownload(const std::string& query, const std::string& file);  // "/table.csv?QUERY"

}  // namespace rivulet
