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
  std::string path;     // HTML: the page's place, after the program's name
  std::string heading;  // HTML instead of an <h1> of the title; "": the title
  Renewal renewal = Renewal::kNone;
};
// `body` is HTML. Style and script are inside the page: it is complete even if its server ends right after, and is
// painted after one response.
std::string PageOf(const PageHead& head, std::string_view body);

std::string UrlText(std::string_view text);  // escaped for an address
// Links to the pages of a run, a round and a client: <a>, and their addresses escaped as HTML. `place` is the run's id
// with its history's prefix (pages.h).
std::string RunLink(const std::string& place, const std::string& run_id);
std::string RoundAddress(const std::string& place, int64_t round);
std::string ClientAddress(const std::string& place, const std::string& client_id);
std::string RoundLink(const std::string& place, int64_t round, const std::string& text);
std::string ClientLink(const std::string& place, const std::string& client_id);
std::string RunPath(const std::string& place, const std::string& run_id);  // PageHead::path of a page below a run's
// The status of a run, an attempt, a task or a client, with a sign for the colour-blind.
std::string StatusHtml(const std::string& status);
// A reason below the status, which a narrow screen shows too; "" for "".
std::string WhyHtml(const std::string& reason);
std::string Chip(const std::string& name, const std::string& value);  // "name value" in a frame; either may be empty
// UTC, "2025-01-31T14:25:30.123Z", which a script shows in the reader's zone; the UTC stays in the tooltip.
std::string TimeHtml(const std::string& utc);
std::string Share(const std::optional<double>& value);  // four digits; "" for nullopt
std::string TextOfCell(const Cell& cell);

// A section that answers one question: a heading, a large word or figure (HTML), and details (HTML).
std::string CardHtml(const std::string& title, const std::string& large, const std::string& more,
                     std::string_view grade = "");
// A table of names and values; the values are HTML already.
std::string FactsTable(const std::vector<std::pair<std::string, std::string>>& facts);
std::string EventsTable(const std::vector<EventRow>& newest_first);

// Rows of cells that are HTML already. A column whose title ends with '#' is right-aligned; one whose title begins with
// '?' is left out if all its cells are empty. Neither sign is shown. On a narrow screen each row becomes a card, with
// every cell after its column's title.
std::string HtmlTable(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows);

// Long tables are shown page by page: the first row of the page with row `first`, of `total` rows.
size_t LeafOf(int64_t first, size_t total);
// "51–100 of 1000, previous, next": the row's number is appended to `address`.
std::string LeafLinks(std::string_view address, size_t first, size_t total, std::string_view anchor);

// A download of a table or a picture: the format, and its address from UrlText.
struct FileLink {
  std::string kind, address, file;  // "CSV"; the name of the saved file
};
std::string DownloadLinks(const std::vector<FileLink>& downloads);  // "" if there are none
// An <h2> with the downloads of the following content; `more` is HTML between them.
std::string HeadingHtml(const std::string& id, const std::string& title, const std::vector<FileLink>& downloads,
                        std::string_view more = "");

}  // namespace rivulet
