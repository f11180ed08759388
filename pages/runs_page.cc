// The list of runs.
#include <algorithm>
#include <map>

#include "engine/base/join.h"
#include "engine/base/quantities.h"
#include "inspect/listed_runs.h"
#include "inspect/pauses.h"
#include "pages/figures.h"
#include "pages/live_run.h"
#include "pages/page_parts.h"
#include "pages/pages.h"

namespace rivulet {
namespace {

constexpr size_t kDifferencesShown = 3;
constexpr double kSparklineWidth = 108;

std::string Lowered(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// "learning_rate=0.1" and "client.optimizer.learning_rate=0.1" both find that key.
bool HasKey(const ListedRun& run, const std::string& key, const std::string& wanted) {
  if (key == "tag") return std::ranges::find(run.tags, wanted) != run.tags.end();
  if (key == "name") return run.row.name == wanted;
  return std::ranges::any_of(run.keys, [&](const auto& known) {
    return ("." + known.first).ends_with("." + key) && (known.second == wanted || KeyText(run, known.first) == wanted);
  });
}

bool Matches(const ListedRun& run, const RunsQuery& query) {
  if (!query.status.empty() && run.row.status != query.status) return false;
  if (!query.algorithm.empty() && KeyText(run, kAlgorithmKey) != query.algorithm) return false;
  const std::string text = Lowered(
      fmt::format("{} {} {} {}", run.row.run_id, run.row.name, Join(run.tags, " "), KeyText(run, kAlgorithmKey)));
  for (size_t begin = 0; begin < query.find.size();) {
    const size_t end = std::min(query.find.find(' ', begin), query.find.size());
    const std::string word = query.find.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = word.find('=');
    if (equals != word.npos && !HasKey(run, word.substr(0, equals), word.substr(equals + 1))) return false;
    if (equals == word.npos && text.find(Lowered(word)) == text.npos) return false;
  }
  return true;
}

// Sorts by a column's values; runs without one come last in either order.
void Sort(std::vector<ListedRun>& runs, const RunsQuery& query) {
  const auto value = [&](const ListedRun& run) -> Cell {
    if (query.sort == "run") return run.row.name;
    if (query.sort == "status") return run.row.status;
    if (query.sort == "algorithm") return TextCell(KeyText(run, kAlgorithmKey));
    if (query.sort == "seed") return static_cast<double>(run.row.seed);
    if (query.sort == "best") return CellOrNull(run.row.best_accuracy);
    if (query.sort == "rounds") return static_cast<double>(run.row.rounds);
    if (query.sort == "took") return run.row.seconds;
    if (query.sort != "rate") return run.row.created_at;
    const Cell rate = ValueUnder(run, kLearningRateKey);
    const auto* whole = std::get_if<int64_t>(&rate);
    return whole != nullptr ? Cell(static_cast<double>(*whole)) : rate;
  };
  std::ranges::stable_sort(runs, [&](const ListedRun& a, const ListedRun& b) {
    const Cell one = value(a), other = value(b);
    if ((one == Cell()) != (other == Cell())) return other == Cell();
    return query.ascending ? one < other : other < one;
  });
}

// The address of a list with `query`, except its page.
std::string Address(const RunsQuery& query, const std::string& sort, bool ascending) {
  std::string address = fmt::format("/?sort={}&order={}", UrlText(sort), ascending ? "up" : "down");
  for (const auto& [name, value] :
       {std::pair("find", query.find), {"status", query.status}, {"algorithm", query.algorithm}})
    if (!value.empty()) address += fmt::format("&{}={}", name, UrlText(value));
  return address;
}

// A column for sorting, and its first direction.
struct SortedBy {
  const char* title;
  const char* sort;  // "": the list cannot be sorted by it
  bool rises = false;
};
struct ListColumn {
  std::vector<SortedBy> parts;  // columns of its head
  bool number = false;
};
const std::vector<ListColumn>& Columns() {
  static const std::vector<ListColumn> columns = {{{{"", ""}}},
                                                  {{{"run", "run", true}}},
                                                  {{{"status", "status", true}}},
                                                  {{{"algorithm", "algorithm", true}}},
                                                  {{{"learning rate", "rate", true}}, true},
                                                  {{{"seed", "seed", true}}, true},
                                                  {{{"best", "best"}}, true},
                                                  {{{"course", ""}}},
                                                  {{{"other differences", ""}}},
                                                  {{{"rounds", "rounds"}}, true},
                                                  {{{"began", "began"}, {"took", "took"}}}};
  return columns;
}

bool IsSortedBy(const std::string& sort) {
  for (const ListColumn& column : Columns())
    for (const SortedBy& part : column.parts)
      if (!sort.empty() && sort == part.sort) return true;
  return false;
}

std::string Head(const RunsQuery& query) {
  std::string html = "<thead><tr>";
  for (const ListColumn& column : Columns()) {
    std::string sorted, titles;
    for (const SortedBy& part : column.parts) {
      const bool here = query.sort == part.sort;
      if (here) sorted = query.ascending ? " aria-sort=\"ascending\"" : " aria-sort=\"descending\"";
      if (!titles.empty()) titles += " · ";
      const std::string address = Address(query, part.sort, here ? !query.ascending : part.rises);
      titles += *part.sort == '\0' ? part.title
                                   : fmt::format("<a href=\"{}\">{}{}</a>", XmlText(address), part.title,
                                                 !here             ? ""
                                                 : query.ascending ? " ↑"
                                                                   : " ↓");
    }
    html += fmt::format("<th scope=\"col\"{}{}>{}</th>", column.number ? " class=\"n\"" : "", sorted, titles);
  }
  return html + "</tr></thead>";
}

// The keys of a run that differ from most runs in the list, and the options of its algorithm.
std::string Differences(const ListedRun& run, const std::vector<std::string>& telling,
                        const std::map<std::string, std::string>& usual) {
  const std::set<std::string> names(telling.begin(), telling.end());
  std::string html, rest;
  size_t shown = 0, hidden = 0;
  for (const std::string& key : telling) {
    const std::string value = KeyText(run, key);
    if (value.empty() || (!key.starts_with("algorithm.") && usual.at(key) == value)) continue;
    if (shown < kDifferencesShown) {
      ++shown;
      html += Chip(ShortKey(key, names), value);
    } else {
      ++hidden;
      rest += fmt::format("{}{} = {}", rest.empty() ? "" : "\n", key, value);
    }
  }
  if (hidden > 0) html += fmt::format("<span class=\"chip\" title=\"{}\">+{}</span>", XmlText(rest), hidden);
  return html;
}

std::map<std::string, std::string> UsualValues(std::span<const ListedRun> runs, const std::vector<std::string>& keys) {
  std::map<std::string, std::string> usual;
  for (const std::string& key : keys) {
    std::map<std::string, size_t> counts;
    for (const ListedRun& run : runs) ++counts[KeyText(run, key)];
    usual[key] = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; })->first;
  }
  return usual;
}

// One row; `place` is the run's id with its history's prefix.
StatusOr<std::string> Row(History& history, const ListedRun& run, const std::string& place,
                          const std::string& differences) {
  RIVULET_ASSIGN_OR_RETURN(const std::optional<Curve> curve, LoadFirstCurve(history, run.row.run_id));
  std::string tags, result;
  for (const std::string& tag : run.tags) tags += Chip("#" + tag, "");
  if (run.row.best_accuracy) {
    result = fmt::format("{}<span class=\"id\">last {}</span>", MetricText(*run.row.best_accuracy),
                         Share(run.row.last_accuracy));
  } else if (curve) {
    result = fmt::format("{}<span class=\"id\">{}</span>", MetricText(curve->best().second), XmlText(curve->name));
  }
  const Cell wanted = ValueUnder(run, "run.rounds");
  const auto* of = std::get_if<int64_t>(&wanted);
  const std::string rounds =
      of == nullptr || *of <= 0
          ? fmt::format("{}", run.row.rounds)
          : fmt::format("{0} of {1}<progress max=\"{1}\" value=\"{0}\" aria-label=\"rounds\"></progress>",
                        run.row.rounds, *of);
  return fmt::format(
      "<tr><td class=\"tick\"><input type=\"checkbox\" name=\"run\" value=\"{0}\" aria-label=\"compare {1}\"></td>"
      "<td class=\"called\"><a class=\"name\" href=\"/run?id={2}\">{3}</a> {4}<span class=\"id\">{1}</span></td>"
      "<td>{5}</td><td data-is=\"algorithm\">{6}</td><td class=\"n\" data-is=\"rate\">{7}</td>"
      "<td class=\"n\" data-is=\"seed\">{8}</td><td class=\"n\" data-is=\"best\">{9}</td><td>{10}</td>"
      "<td class=\"differs\">{11}</td><td class=\"n\" data-is=\"rounds\">{12}</td>"
      "<td class=\"began\" data-is=\"began\">{13}<span class=\"id\">took {14}</span></td></tr>\n",
      XmlText(place), XmlText(run.row.run_id), UrlText(place), XmlText(run.row.name), tags, StatusHtml(run.row.status),
      XmlText(KeyText(run, kAlgorithmKey)), XmlText(KeyText(run, kLearningRateKey)), run.row.seed, result,
      curve ? SparklineSvg(*curve, kSparklineWidth) : "", differences, rounds, TimeHtml(run.row.created_at),
      SecondsText(run.row.seconds));
}

std::string Choice(const std::string& name, const std::set<std::string>& values, const std::string& chosen) {
  std::string html = fmt::format("<label>{0}<select name=\"{0}\"><option value=\"\">any</option>", name);
  for (const std::string& value : values)
    html += fmt::format("<option{}>{}</option>", value == chosen ? " selected" : "", XmlText(value));
  return html + "</select></label>";
}

}  // namespace

StatusOr<std::string> RunsPage(std::span<const PlacedHistory> histories, const RunsQuery& asked, const LiveRun* live) {
  RunsQuery query = asked;
  if (!IsSortedBy(query.sort)) query.sort = "";
  if (query.sort.empty()) {
    query.sort = "began";
    query.ascending = false;
  }
  std::string tables;
  std::map<std::string, size_t> statuses;
  std::set<std::string> algorithms, known_statuses;
  std::vector<FileLink> downloads;
  bool running = false;
  for (const PlacedHistory& placed : histories) {
    RIVULET_ASSIGN_OR_RETURN(std::vector<ListedRun> runs, LoadListedRuns(*placed.history));
    RIVULET_ASSIGN_OR_RETURN(const auto pauses, PausedRuns(*placed.history));
    for (ListedRun& run : runs) {
      running = running || run.row.status == "running";
      if (run.row.status == "running" && pauses.contains(run.row.run_id)) run.row.status = "paused";
      ++statuses[run.row.status];
      known_statuses.insert(run.row.status);
      if (const std::string algorithm = KeyText(run, kAlgorithmKey); !algorithm.empty()) algorithms.insert(algorithm);
    }
    const bool any = !runs.empty();
    std::erase_if(runs, [&](const ListedRun& run) { return !Matches(run, query); });
    Sort(runs, query);
    if (histories.size() > 1) tables += fmt::format("<h2>{}</h2>\n", XmlText(placed.history->path()));
    downloads.push_back({histories.size() > 1 ? placed.history->path() : "CSV",
                         "/table.csv?of=runs&run=" + UrlText(placed.prefix), "runs.csv"});
    if (runs.empty()) {
      tables += any ? "<p>No run matches.</p>\n" : "<p>No runs yet.</p>\n";
      continue;
    }
    const size_t first = LeafOf(query.first, runs.size()), end = std::min(first + kRowsOfAPage, runs.size());
    const std::vector<ListedRun> shown(runs.begin() + static_cast<std::ptrdiff_t>(first),
                                       runs.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<std::string> telling = TellingKeys(shown);
    const std::map<std::string, std::string> usual = UsualValues(shown, telling);
    tables += LeafLinks(Address(query, query.sort, query.ascending) + "&runs=", first, runs.size(), "") +
              "<div class=\"scroll\"><table class=\"runs\">" + Head(query) + "<tbody>\n";
    for (const ListedRun& run : shown) {
      RIVULET_ASSIGN_OR_RETURN(const std::string row, Row(*placed.history, run, placed.prefix + run.row.run_id,
                                                          Differences(run, telling, usual)));
      tables += row;
    }
    tables += "</tbody></table></div>\n";
  }
  std::string heading = "<div class=\"title\"><h1>Runs</h1>";
  for (const auto& [status, count] : statuses)
    heading += fmt::format("<span class=\"status {0}\">{1} {0}</span>", XmlText(status), count);
  heading += fmt::format("<span class=\"actions\">{}</span></div>\n", DownloadLinks(downloads));
  std::string body;
  if (live != nullptr)
    body += fmt::format("<p class=\"says running\">{} is running in this process; its page follows it.</p>\n",
                        RunLink(live->run_id(), live->run_id()));
  body += fmt::format(
      "<form class=\"tools\" action=\"/\" method=\"get\"><label>find<input name=\"find\" value=\"{}\" "
      "placeholder=\"name, tag or key=value\"></label>{}{}<input type=\"hidden\" name=\"sort\" value=\"{}\">"
      "<input type=\"hidden\" name=\"order\" value=\"{}\"><button type=\"submit\">Show</button></form>\n",
      XmlText(query.find), Choice("status", known_statuses, query.status),
      Choice("algorithm", algorithms, query.algorithm), XmlText(query.sort), query.ascending ? "up" : "down");
  body +=
      "<form action=\"/compare\" method=\"get\">\n" + tables +
      "<div class=\"below\"><button class=\"main\" type=\"submit\">Compare the ticked runs</button>"
      "<span class=\"faint\">Runs that are equal but for the seed become one line with a band.</span></div></form>\n";
  if (live == nullptr && running) body += fmt::format("<p class=\"faint\">{}</p>\n", kRowsAppear);
  return PageOf(
      {.title = "Runs",
       .path = histories.size() == 1 ? fmt::format("<span>/ {}</span>", XmlText(histories[0].history->path())) : "",
       .heading = heading,
       .renewal = running ? Renewal::kEveryFiveSeconds : Renewal::kNone},
      body);
}

std::string ErrorPage(std::string_view title, std::string_view sentence) {
  return PageOf({.title = std::string(title), .path = "", .heading = ""},
                fmt::format("<p>{}</p>\n<p><a href=\"/\">All runs</a></p>\n", XmlText(sentence)));
}

}  // namespace rivulet
