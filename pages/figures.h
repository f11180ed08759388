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

// `says` is HTML after the title; `wide`: uses the page's full width.
std::string FigureHtml(const std::string& title, const std::string& says, const Picture& picture,
                       const std::vector<FileLink>& downloads, bool wide = false);

// A chart that shows values under the pointer if scripts run: its points are in `data-plot`.
std::string ChartFigure(const Chart& chart, const std::string& says, const std::vector<FileLink>& downloads);

// The curves of one run, except those with a single point. `place`: the run's id with its history's prefix
// (pages.h).
std::string CurveFigures(const std::vector<Curve>& curves, const std::string& place, const std::string& run_id);
// Controls for smoothing and the axis of all charts of the page, hidden without scripts.
std::string ChartKnobs();

Chart ChartOf(const Curve& curve, const std::string& label);

// `width` by 30 points, without axes, with a text alternative; "" for less than two values.
std::string SparklineSvg(const Curve& curve, double width);

// SVG and PNG at "/picture.svg?QUERY" and "/picture.png?QUERY", saved as FILE.svg and FILE.png.
std::vector<FileLink> PictureDownloads(const std::string& query, const std::string& file);
FileLink TableDownload(const std::string& query, const std::string& file);  // "/table.csv?QUERY"

}  // namespace rivulet
