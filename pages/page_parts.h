// Building blocks of the pages. Texts are passed in unescaped and are emitted as HTML.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/table.h"
#include "inspect/overview.h"

namespace rivulet {

inline constexpr size_t kRowsOfAPage = 50;
// HTML.
inline constexpr char kRowsAppear[] =
    "These pages read a file: a round appears when it has closed and its rows are written. <code>simulate</code> "
    "and <code>coordinator</code> show a run as it goes with <code>--http</code>.";

// Updates of an open page: none, reloads while the reader has not ticked or typed anything, or its feed (live_run.h).
enum class Renewal { kNone, kEveryFiveSeconds, kByFeed };
struct PageHead {
  std::string title;    // in the browser's tab, and the heading
  std::string path;     // HTML: where the page is, behind the program's name
  std::string heading;  // HTML in the place of an <h1> of the title; "": that
  Renewal renewal = Renewal::kNone;
};
// `body` is HTML. Style and script stand in the page: it is whole though the process that served it ends the moment
// after, and is painted after one answer.
std::string PageOf(const PageHead& head, std::string_view body);

std::string UrlText(std::string_view text);  // as it stands in an address
// To a run's page, to a round's and a client's: <a>, and the addresses of these as HTML has them. `place` is the run's
// id with its history's prefix (pages.h).
std::string RunLink(const std::string& place, const std::string& run_id);
std::string RoundAddress(const std::string& place, int64_t round);
std::string ClientAddress(const std::string& place, const std::string& client_id);
std::string RoundLink(const std::string& place, int64_t round, const std::string& text);
std::string ClientLink(const std::string& place, const std::string& client_id);
std::string RunPath(const std::string& place, const std::string& run_id);  // PageHead::path of a page below a run's
// Of a run, an attempt, a task or a client: with a sign, for those who see no colour.
std::string StatusHtml(const std::string& status);
// A reason, to stand below the status, where a narrow screen shows it too; "" for "".
std::string WhyHtml(const std::string& reason);
std::string Chip(const std::string& name, const std::string& value);  // "name value" in a frame; "": no such part
// UTC, "2025-01-31T14:25:30.123Z", which a script shows in the reader's zone; the UTC stays in the tooltip.
std::string TimeHtml(const std::string& utc);
std::string Share(const std::optional<double>& value);  // four digits; "" of nothing
std::string TextOfCell(const Cell& cell);

// A section that answers one question: a heading, a large word or figure (HTML), and details (HTML).
std::string CardHtml(const std::string& title, const std::string& large, const std::string& more,
                     std::string_view grade = "");
// What is said of a thing in one column: names as they are, values that are HTML already.
std::string FactsTable(const std::vector<std::pair<std::string, std::string>>& facts);
std::string EventsTable(const std::vector<EventRow>& newest_first);

// Rows of cells that are HTML already. Numbers stand to the right where a title ends with '#', and a column whose title
// begins with '?' is left out where all its cells are empty; neither sign is shown. On a narrow screen each row becomes
// a card, in which every cell stands behind its column's title.
std::string HtmlTable(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows);

// Long tables are shown a leaf at a time: the place that the leaf with row `first` begins with, of `total` rows.
size_t LeafOf(int64_t first, size_t total);
// "51–100 of 1000, previous, next": `address` ends where the number goes.
std::string LeafLinks(std::string_view address, size_t first, size_t total, std::string_view anchor);

// What a table or a picture can be had as: the kind, and its address as UrlText made it.
struct FileLink {
  std::string kind, address, file;  // "CSV"; the name that it is kept under
};
std::string DownloadLinks(const std::vector<FileLink>& downloads);  // "" of none
// An <h2> with the downloads of what follows; `more` is HTML between them.
std::string HeadingHtml(const std::string& id, const std::string& title, const std::vector<FileLink>& downloads,
                        std::string_view more = "");

}  // namespace rivulet
