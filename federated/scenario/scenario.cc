#include "federated/scenario/scenario.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "engine/base/display_name.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/optimizers/settings/optimizer_settings.h"
#include "federated/scenario/keys.h"
#include "federated/scenario/stop_condition.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

using scenario::Entry;
using scenario::FindKey;
using scenario::Key;
using scenario::Keys;

// Position at which each given key was set.
struct Origin {
  std::string where;
  bool is_override = false;
};
using Given = std::map<std::string, Origin>;

// `server.clients_per_round = 20 (FILE:9:21)`
std::string Cite(const Scenario& scenario, const Given& given, const std::string& name) {
  const auto origin = given.find(name);
  return fmt::format("{} = {} ({})", name, FindKey(name)->Toml(scenario),
                     origin == given.end() ? "the default" : origin->second.where);
}

// The former name of algorithm.name, from before algorithms had tables of options.
constexpr std::string_view kFormerAlgorithm = "server.algorithm";

// A given option of a piece; whether the piece has it is checked after parsing.
struct Option {
  scenario::Value value;
  Origin origin;
};

// A section whose key "name" chooses a piece, next to the piece's own options.
struct PieceSection {
  std::string_view name;  // of the section, and of its tables' kind
  std::string& (*piece)(Scenario&);
  SettingValues& (*settings)(Scenario&);
  bool or_none = false;

  std::string Name(std::string_view option) const { return fmt::format("{}.{}", name, option); }
  const SettingValues& settings_of(const Scenario& scenario) const { return settings(const_cast<Scenario&>(scenario)); }
};
constexpr PieceSection kPieceSections[] = {
    {"algorithm", RIVULET_FIELD(algorithm.name), RIVULET_FIELD(algorithm.settings)},
    {"selection", RIVULET_FIELD(selection.name), RIVULET_FIELD(selection.settings)},
    {"attack", RIVULET_FIELD(attack.name), RIVULET_FIELD(attack.settings), true},
};
// By section, then by option name.
using Options = std::map<std::string_view, std::map<std::string, Option, std::less<>>>;

const PieceSection* SectionOf(std::string_view key) {
  const auto found = std::ranges::find(kPieceSections, key.substr(0, key.find('.')), &PieceSection::name);
  return found == std::end(kPieceSections) || found->name.size() == key.size() ? nullptr : found;
}

Status Assign(const Entry& entry, Scenario& scenario, Given& given, Options& options) {
  const Key* key = FindKey(entry.key);
  if (key != nullptr) {
    const auto before = given.find(key->name());
    if (before != given.end() && !before->second.is_override && !entry.is_override)
      return InvalidArgument("{} in {} and {} in {} are one key under two names; keep {}", entry.key, entry.where,
                             key->name(), before->second.where, key->name());
    given[key->name()] = {entry.where, entry.is_override};
    // Relative paths in overrides start at the working directory.
    return key->Set(entry.value, entry.where, entry.is_override ? "." : scenario.folder, scenario);
  }
  if (const PieceSection* section = SectionOf(entry.key); section != nullptr) {
    options[section->name][entry.key.substr(section->name.size() + 1)] = {entry.value,
                                                                          {entry.where, entry.is_override}};
    return absl::OkStatus();
  }
  if (entry.key == kFormerAlgorithm) {
    const auto* name = std::get_if<SettingValue>(&entry.value);
    return InvalidArgument("{} in {} is a separate table now; write [algorithm] name = {}", kFormerAlgorithm,
                           entry.where, name == nullptr ? "\"fedavg\"" : rivulet::ToToml(*name));
  }
  if (!scenario::IsSection(entry.key)) {
    return InvalidArgument("unknown {} '{}' in {}.{}", entry.is_table ? "table" : "key", entry.key, entry.where,
                           scenario::SuggestKey(entry.key, entry.is_table));
  }
  if (!entry.is_table)
    return InvalidArgument("{} in {} must be a table, not {}", entry.key, entry.where, scenario::Describe(entry.value));
  return absl::OkStatus();
}

// A model is a preset, a graph, an ONNX model, arrays or layers; an override of one replaces another from the file.
Status ChooseModel(Scenario& scenario, Given& given) {
  ModelConfig& model = scenario.model;
  const std::pair<std::string, bool> ways[] = {{"model.preset", !model.preset.empty()},
                                               {"model.graph", !model.graph.empty()},
                                               {"model.onnx", !model.onnx.empty()},
                                               {"model.arrays", !model.arrays.empty()},
                                               {"model.layers", !model.layers.empty()}};
  std::vector<std::string> taken, overriding;
  for (const auto& [name, is_given] : ways) {
    if (!is_given) continue;
    taken.push_back(name);
    if (given[name].is_override) overriding.push_back(name);
  }
  if (taken.empty()) {
    return InvalidArgument(
        "{} names no model; give model.preset (such as \"mnist_cnn\"), model.graph (a GraphDef file), model.onnx (an "
        "ONNX model), model.arrays (weights alone, which clients train in their own way) or [[model.layers]]",
        scenario.path);
  }
  if (taken.size() == 1) return absl::OkStatus();
  if (overriding.size() != 1) {
    const auto cite = [&](const std::string& name) {
      return name == "model.layers" ? fmt::format("model.layers ({})", given[name].where) : Cite(scenario, given, name);
    };
    return InvalidArgument("{} and {} exclude each other; keep one", cite(taken[0]), cite(taken[1]));
  }
  for (const std::string& dropped : taken) {
    if (dropped == overriding[0]) continue;
    FindKey(dropped)->Reset(scenario);
    given.erase(dropped);
  }
  return absl::OkStatus();
}

// Refuses keys without effect, and checks options against the chosen piece's range, which is known after parsing.
Status RefuseWhatDoesNotApply(Scenario& scenario, Given& given) {
  std::set<std::string, std::less<>> dropped;  // dropped because an override chose another kind
  for (const Key& key : Keys()) {
    const auto origin = given.find(key.name());
    if (origin == given.end()) continue;
    if (key.Applies(scenario)) {
      RIVULET_RETURN_IF_ERROR(key.CheckOwnRange(origin->second.where, scenario));
      continue;
    }
    const auto selector = given.find(key.selector());
    const bool chosen_anew = selector != given.end()
                                 ? selector->second.is_override
                                 : dropped.contains(key.selector()) || key.selector().starts_with("model.");
    if (chosen_anew && !origin->second.is_override) {
      key.Reset(scenario);
      given.erase(origin);
      dropped.insert(key.name());
      continue;
    }
    return InvalidArgument("{} in {} has an effect only when {}; remove it, or change {}", key.name(),
                           origin->second.where, key.applies_when(), key.selector());
  }
  return absl::OkStatus();
}

// Checks a piece's own options against its table and adds defaults.
Status ReadPiece(const PieceSection& section, Options& all, const Given& given, Scenario& scenario) {
  const std::string name_key = section.Name("name");
  const std::string& piece = section.piece(scenario);
  const std::map<std::string, Option, std::less<>>& options = all[section.name];
  static const SettingTable kNothing;
  const SettingTable* table = &kNothing;
  if (!piece.empty() || !section.or_none) {
    const auto found = FindSettingTable(section.name, piece);
    if (!found.ok()) return InvalidArgument("{}: {}", Cite(scenario, given, name_key), Message(found.status()));
    table = *found;
  }
  const auto name_given = given.find(name_key);
  const bool chosen_anew = name_given != given.end() && name_given->second.is_override;
  const bool has_rule = section.name == "algorithm" && !scenario.algorithm.graph.empty();
  SettingValues values, of_rule;
  for (const auto& [name, option] : options) {
    const std::string subject = fmt::format("{} in {}", section.Name(name), option.origin.where);
    const Setting* setting = FindSetting(table->settings, name);
    if (setting != nullptr) {
      const auto* value = std::get_if<SettingValue>(&option.value);
      if (value == nullptr) return setting->WrongType(subject, scenario::Describe(option.value));
      RIVULET_ASSIGN_OR_RETURN(values[name], setting->Take(*value, subject));
      continue;
    }
    // The rule's file defines its settings; it is read when the plan is built.
    if (has_rule) {
      const Setting number = Float(name, std::nullopt, "");
      const auto* value = std::get_if<SettingValue>(&option.value);
      if (value == nullptr) return number.WrongType(subject, scenario::Describe(option.value));
      RIVULET_ASSIGN_OR_RETURN(of_rule[name], number.Take(*value, subject));
      continue;
    }
    const std::vector<std::string> owners = OwnersOf(section.name, name);
    if (!owners.empty()) {
      // An override of the piece drops the file's options for the former piece.
      if (chosen_anew && !option.origin.is_override) continue;
      return InvalidArgument("{} belongs to {}; remove it, or change {}", subject, Join(owners, " and "),
                             Cite(scenario, given, name_key));
    }
    // Compares names without the table's name, which would make every short option look like "name".
    std::vector<std::string> names = {"name"};
    for (const Setting& known : table->settings) names.push_back(known.name);
    std::string near = Nearest(name, names);
    if (!near.empty()) near = section.Name(near);
    const auto elsewhere = std::ranges::find(Keys(), name, &Key::leaf);
    if (near.empty() && elsewhere != Keys().end()) near = elsewhere->name();
    return InvalidArgument("unknown key '{}' in {}.{}", section.Name(name), option.origin.where,
                           near.empty() ? "" : fmt::format(" Did you mean '{}'?", near));
  }
  RIVULET_ASSIGN_OR_RETURN(const Settings settings,
                           Settings::Read(table->settings, values, Cite(scenario, given, name_key)));
  section.settings(scenario) = settings.values();
  section.settings(scenario).merge(of_rule);
  return absl::OkStatus();
}

// A decay lasts as long as the run unless its length is given.
void FillLength(std::string_view kind, std::string_view section, const Given& given, int64_t rounds,
                ScheduleConfig& schedule) {
  const auto table = FindSettingTable(kind, schedule.kind);
  if (table.ok() && FindSetting((*table)->settings, "length") != nullptr &&
      !given.contains(fmt::format("{}.length", section)))
    schedule.settings["length"] = rounds;
}

// Named after the generator and its options, so that other values use other files: "data/digits-50-10-30-1".
std::string GeneratedFolder(const SynthConfig& synth) {
  std::string name = synth.kind;
  if (const auto table = FindSettingTable("generator", synth.kind); table.ok()) {
    for (const Setting& setting : (*table)->settings) {
      const auto given = synth.settings.find(setting.name);
      name += "-" + ToToml(given == synth.settings.end() ? *setting.default_value : given->second);
    }
  }
  for (char& c : name)
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '_';
  return JoinPath("data", name);
}

void FillDefaults(Scenario& scenario, const Given& given) {
  const std::filesystem::path path(scenario.path);
  if (!given.contains("run.name")) scenario.run.name = path.stem().string();
  if (!given.contains("model.objective") && scenario.model.target != "class")
    scenario.model.objective = scenario.model.target == "labels" ? "sigmoid_cross_entropy" : "mse";
  if (!given.contains("model.metrics") && (!scenario.model.graph.empty() || !scenario.model.arrays.empty()))
    scenario.model.metrics = {"accuracy"};
  const int64_t rounds = scenario.run.rounds;
  FillLength("schedule", "client.schedule", given, rounds, scenario.client.schedule);
  FillLength("server schedule", "server.schedule", given, rounds, scenario.server.schedule);
  DataConfig& data = scenario.data;
  if (data.partition.clients > 0 && !given.contains("server.clients_per_round"))
    scenario.server.clients_per_round = std::min(scenario.server.clients_per_round, data.partition.clients);
  if (data.synth.kind.empty()) return;
  if (data.train.empty()) {
    data.train = scenario::AbsolutePath(JoinPath(GeneratedFolder(data.synth), "train.tfrecord"), scenario.folder);
  }
  // A generated test set is not meaningful for the user's own training data.
  if (data.test.empty() && !given.contains("data.test") && !given.contains("data.train")) {
    data.test = scenario::AbsolutePath("test.tfrecord", FolderOf(data.train));
  }
}

// Names of test sets become prefixes of metrics, so they must differ from reserved prefixes.
Status CheckMeasuredSets(const DataConfig& data) {
  if (!data.validation.empty() && data.validation_fraction > 0)
    return InvalidArgument("data.validation and data.validation_fraction both give a validation set; keep one");
  std::set<std::string> names = {"test", "validation", "train", "evaluate", "personal"};
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; };
  for (const std::string& line : data.tests) {
    const std::string name = line.substr(0, line.find('='));
    if (name.empty() || name.size() + 1 >= line.size() || !std::ranges::all_of(name, plain))
      return InvalidArgument(
          "data.tests has '{}'; write NAME=FILE, such as rotated=rotated.tfrecord, the name of letters, digits, _ and "
          "-",
          line);
    if (!names.insert(name).second)
      return InvalidArgument("data.tests names a set '{}', which is taken; call it otherwise", name);
  }
  return absl::OkStatus();
}

Status CheckClients(const Scenario& scenario, const Given& given) {
  const DataConfig& data = scenario.data;
  if (data.partition.clients == 0 && !HasTrait("partitioner", data.partition.kind, kCountsClients)) {
    return InvalidArgument("{} leaves no clients to train; {} needs at least 1",
                           Cite(scenario, given, "data.partition.clients"),
                           Cite(scenario, given, "data.partition.kind"));
  }
  for (const std::string& line : data.partition.tags) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == line.size()) {
      return InvalidArgument(
          "data.partition.tags has '{}'; write TAG=PATTERN with the clients of the tag, such as icu=client-0000*",
          line);
    }
  }
  return absl::OkStatus();
}

Status CheckTogether(const Scenario& scenario, const Given& given) {
  const auto cite = [&](const std::string& name) { return Cite(scenario, given, name); };
  const DataConfig& data = scenario.data;
  const ServerConfig& server = scenario.server;
  if (scenario.run.name.empty() || scenario.run.name == "latest") {
    return InvalidArgument("{} cannot name a run; choose another name", cite("run.name"));
  }
  RIVULET_RETURN_IF_ERROR(CheckDisplayName("run.name", scenario.run.name));
  if (!scenario.run.stop.empty()) RIVULET_RETURN_IF_ERROR(StopCondition::Parse(scenario.run.stop).status());
  const int64_t clients = data.partition.clients;
  if (clients > 0 && server.clients_per_round > clients) {
    return InvalidArgument("{} is more than {}; select fewer, or make more clients", cite("server.clients_per_round"),
                           cite("data.partition.clients"));
  }
  if (clients > 0 && server.clients_asked() > clients) {
    return InvalidArgument("{} of {} asks {} clients, and there are {}; ask fewer, or make more clients",
                           cite("server.over_selection"), cite("server.clients_per_round"), server.clients_asked(),
                           clients);
  }
  if (clients > 0 && server.in_flight > clients) {
    return InvalidArgument("{} is more than {}; draw fewer, or make more clients", cite("server.in_flight"),
                           cite("data.partition.clients"));
  }
  if (clients > 0 && server.min_clients > clients) {
    return InvalidArgument("{} is more than {}, so the run would never start", cite("server.min_clients"),
                           cite("data.partition.clients"));
  }
  if (server.min_clients > 0 && server.min_clients < server.clients_per_round) {
    return InvalidArgument("{} is less than {}; the first cohort could not be filled", cite("server.min_clients"),
                           cite("server.clients_per_round"));
  }
  if (clients > 0 && scenario.evaluation.federated_clients > clients) {
    return InvalidArgument("{} is more than {}; draw fewer, or make more clients", cite("evaluation.federated_clients"),
                           cite("data.partition.clients"));
  }
  if (server.average > 0 && !server.fine_tune.data.empty()) {
    return InvalidArgument("{} would average versions as they are before the server trains them ({}); keep one",
                           cite("server.average"), cite("server.fine_tune.data"));
  }
  RIVULET_RETURN_IF_ERROR(CheckMeasuredSets(data));
  if (server.min_reports > server.clients_per_round) {
    return InvalidArgument("{} is more than {}, so no round could ever commit", cite("server.min_reports"),
                           cite("server.clients_per_round"));
  }
  return absl::OkStatus();
}

// Applies the entries of a file, followed by those of overrides.
StatusOr<Scenario> FromEntries(const std::vector<Entry>& entries, const std::string& path, const std::string& folder,
                               ScenarioPart part = ScenarioPart::kAll) {
  Scenario result;
  result.path = path;
  result.folder = scenario::AbsolutePath(folder, ".");
  if (result.folder.size() > 1 && result.folder.ends_with('/')) result.folder.pop_back();
  Given given;
  Options options;
  for (const Entry& entry : entries) RIVULET_RETURN_IF_ERROR(Assign(entry, result, given, options));
  const bool all = part == ScenarioPart::kAll;
  if (const Status model = ChooseModel(result, given); all) RIVULET_RETURN_IF_ERROR(model);
  RIVULET_RETURN_IF_ERROR(RefuseWhatDoesNotApply(result, given));
  for (const PieceSection& section : kPieceSections)
    RIVULET_RETURN_IF_ERROR(ReadPiece(section, options, given, result));
  FillDefaults(result, given);
  RIVULET_RETURN_IF_ERROR(CheckClients(result, given));
  if (all) RIVULET_RETURN_IF_ERROR(CheckTogether(result, given));
  for (const auto& [name, origin] : given) result.given[name] = origin.is_override;
  for (const PieceSection& section : kPieceSections)
    for (const auto& [name, option] : options[section.name])
      result.given[section.Name(name)] = option.origin.is_override;
  return result;
}

}  // namespace

// Removes the rounding error of a decimal product, which would add one client.
int64_t ServerConfig::clients_asked() const {
  const double product = over_selection * static_cast<double>(clients_per_round);
  return std::max(clients_per_round, static_cast<int64_t>(std::ceil(product * (1 - 1e-12))));
}

double OptimizerConfig::weight_decay() const {
  if (const auto given = settings.find("weight_decay"); given != settings.end()) return std::get<double>(given->second);
  const OptimizerTable* const table = FindOptimizerTable(kind);
  const Setting* const usual = table == nullptr ? nullptr : FindSetting(table->settings, "weight_decay");
  return usual == nullptr ? 0 : std::get<double>(*usual->default_value);
}

Scenario::Scenario() = default;
Scenario::Scenario(const Scenario& other) = default;
Scenario::Scenario(Scenario&& other) noexcept = default;
Scenario& Scenario::operator=(const Scenario& other) = default;
Scenario& Scenario::operator=(Scenario&& other) noexcept = default;
Scenario::~Scenario() = default;

StatusOr<Scenario> Scenario::Load(const std::string& path,
                                  const std::vector<std::pair<std::string, std::string>>& overrides,
                                  ScenarioPart part) {
  RIVULET_ASSIGN_OR_RETURN(const std::string text, FileSystem::Default().ReadAll(path));
  return Parse(text, path, FolderOf(path), overrides, part);
}

StatusOr<Scenario> Scenario::Parse(const std::string& text, const std::string& path, const std::string& folder,
                                   const std::vector<std::pair<std::string, std::string>>& overrides,
                                   ScenarioPart part) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<Entry> entries, scenario::ReadToml(text, path));
  for (const auto& [key, value] : overrides)
    std::ranges::move(scenario::ReadOverride(key, value), std::back_inserter(entries));
  return FromEntries(entries, path, folder, part);
}

StatusOr<Scenario> Scenario::ParseStored(const std::string& text, const std::string& path,
                                         const std::vector<std::pair<std::string, std::string>>& overrides) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<Entry> entries, scenario::ReadToml(text, path));
  for (const auto& [key, value] : overrides)
    std::ranges::move(scenario::ReadOverride(key, value), std::back_inserter(entries));
  for (Entry& entry : entries)
    if (entry.key == kFormerAlgorithm) entry.key = "algorithm.name";
  return FromEntries(entries, path, "/");
}

namespace {

template <typename Wanted>
std::string TomlOf(const Scenario& scenario, const Wanted& wanted) {
  std::string text;
  std::string_view section;
  for (const Key& key : Keys()) {
    // A key that does not apply has its default, and would be refused when read again.
    if (!key.Applies(scenario) || !wanted(key) || key.Unset(scenario)) continue;
    if (key.section() != section) {
      section = key.section();
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("{} = {}\n", key.leaf(), key.Toml(scenario));
    for (const PieceSection& piece : kPieceSections) {
      if (key.name() != piece.Name("name")) continue;
      for (const auto& [name, value] : piece.settings_of(scenario))
        text += fmt::format("{} = {}\n", name, rivulet::ToToml(value));
    }
  }
  return text;
}

}  // namespace

std::string Scenario::ToToml() const {
  return TomlOf(*this, [](const Key&) { return true; });
}

// Includes keys of files that a plan is built from, to record that there were such files, and keys that may change
// later if a plan key depends on them.
std::string Scenario::PlanKeysToToml() const {
  const auto selects = [](const Key& key) {
    return std::ranges::any_of(Keys(), [&](const Key& other) {
      return other.key_class() == KeyClass::kPlan && other.selector() == key.name();
    });
  };
  return TomlOf(*this, [&](const Key& key) {
    return key.key_class() == KeyClass::kPlan || selects(key) ||
           (key.key_class() == KeyClass::kPlace && !key.section().starts_with("data"));
  });
}

}  // namespace rivulet
