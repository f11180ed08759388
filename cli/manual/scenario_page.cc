// rivulet-scenario(5).
#include "cli/manual/roff.h"
#include "cli/program/option_keys.h"
#include "engine/base/shown_text.h"
#include "federated/scenario/scenario.h"

namespace rivulet {
namespace {

constexpr std::string_view kScenarioDescription =
    "A scenario is a TOML file from which a federated run is made: its model, its data and their division into "
    "clients, "
    "what clients and the server do, and how versions are measured. Every key has a default; a minimal scenario names "
    "a "
    "model and its data. Relative paths start at the file's folder. `rivulet simulate SCENARIO.toml --set KEY=VALUE` "
    "changes keys, `rivulet new FILE.toml` writes a scenario to begin with, and `rivulet help keys PATTERN` prints the "
    "text below for some keys.";

// Markdown as roff: code in bold, links as their words.
std::string RoffOfMarkdown(std::string_view markdown) {
  std::string roff;
  bool code = false;
  for (size_t i = 0; i < markdown.size(); ++i) {
    if (markdown[i] == '`') {
      roff += code ? "\\fR" : "\\fB";
      code = !code;
      continue;
    }
    const size_t middle = !code && markdown[i] == '[' ? markdown.find("](", i) : std::string_view::npos;
    const size_t end = middle == std::string_view::npos ? middle : markdown.find(')', middle);
    if (end == std::string_view::npos) {
      roff += markdown[i] == '\\' ? "\\e" : markdown[i] == '-' ? "\\-" : std::string(1, markdown[i]);
    } else {
      roff += Roff(markdown.substr(i + 1, middle - i - 1));
      i = end;
    }
  }
  return roff.starts_with('.') || roff.starts_with('\'') ? "\\&" + roff : roff;
}

}  // namespace

std::string ScenarioManualPage() {
  std::string page = fmt::format(
      ".TH \"rivulet\\-scenario\" 5 \"\" \"rivulet {}\" \"Rivulet\"\n.SH NAME\nrivulet\\-scenario \\- what a federated "
      "run is "
      "made from\n.SH DESCRIPTION\n{}\n",
      RIVULET_VERSION, RoffOfMarkdown(kScenarioDescription));
  std::string section;
  for (const ScenarioKey& key : KeysAndOptions()) {
    if (std::string of_key = key.name.substr(0, key.name.rfind('.')); of_key != section) {
      section = std::move(of_key);
      page += fmt::format(".SH [{}]\n", Roff(section));
    }
    page +=
        fmt::format(".TP\n.B {} = {}\n{}{}\n", Roff(key.name), Roff(key.example), RoffOfMarkdown(key.doc),
                    key.applies_when.empty() ? "" : RoffOfMarkdown(fmt::format(" Only when {}.", key.applies_when)));
    page += fmt::format(".br\nType: {}. Default: {}. Allowed: {}. Class: {}.\n", RoffOfMarkdown(key.type),
                        RoffOfMarkdown(key.default_value), key.allowed.empty() ? "any" : RoffOfMarkdown(key.allowed),
                        Name(key.key_class));
  }
  return page + ".SH SEE ALSO\n.BR rivulet (1),\n.BR rivulet\\-simulate (1)\n";
}

}  // namespace rivulet
