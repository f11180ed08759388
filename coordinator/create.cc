// Creation of a coordinator: from a scenario and a plan, for a new run or a stored one.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "coordinator/program_version.h"
#include "coordinator/run_coordinator.h"
#include "federated/aggregation/gathering.h"
#include "federated/algorithms/most_updates.h"
#include "federated/secure/protocol.h"
#include "federated/selection/availability.h"

namespace rivulet {
namespace {

constexpr int64_t kFirstPauseMs = 1000;
constexpr int64_t kSimulatedAttempts = 3;
// Ordinals that a process may use for one client's tasks from one version; the next process begins after them. After
// 256 processes they begin anew.
constexpr int64_t kOrdinalsOfAProcess = 256;

int64_t NowUnixMs(const CoordinatorOptions& options) {
  if (options.now_ms) return options.now_ms();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// "<name>-<time>-<four random digits>", safe as a folder's name.
// The time makes it sort, the name makes it readable, the digits keep two runs of one second apart.
std::string NewRunId(const std::string& name, int64_t now_unix_ms) {
  std::string id;
  for (const char c : name.substr(0, 64)) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    if (plain && !(id.empty() && c == '.')) {
      id += c;
    } else if (!id.empty() && id.back() != '-') {
      id += '-';
    }
  }
  while (!id.empty() && id.back() == '-') id.pop_back();
  std::string time;  // 20250131T142530
  for (const char c : Iso8601(now_unix_ms).substr(0, 19)) {
    if (c != '-' && c != ':') time += c;
  }
  return fmt::format("{}{}{}-{:04x}", id, id.empty() ? "" : "-", time, std::random_device()() & 0xFFFF);
}

// Whether some clients of the partition are no members.
bool ChoosesMembers(const SelectionConfig& selection) { return !selection.tags.empty() || selection.min_examples > 0; }

// Sets how clients are drawn, and which may be drawn.
Status AddSelection(const CoordinatorOptions& options, RunRules& rules) {
  const SelectionConfig& selection = options.scenario.selection;
  RIVULET_ASSIGN_OR_RETURN(rules.selector, Selector::Create({selection.name, selection.settings}));
  for (const std::string& tag : selection.tags) {
    rules.wanted_as += fmt::format("{} '{}'", rules.wanted_as.empty() ? " tagged" : " and", tag);
  }
  if (selection.trace.empty()) return absl::OkStatus();
  FileSystem& fs = options.file_system != nullptr ? *options.file_system : FileSystem::Default();
  RIVULET_ASSIGN_OR_RETURN(const std::string csv, fs.ReadAll(selection.trace));
  RIVULET_ASSIGN_OR_RETURN(AvailabilityTrace trace, AvailabilityTrace::Parse(csv, selection.trace, selection.period));
  rules.available = [trace = std::make_shared<const AvailabilityTrace>(std::move(trace))](
                        const std::string& client_id, int64_t round) { return trace->MayBeDrawn(client_id, round); };
  return absl::OkStatus();
}

// Before the first step clients poll, and before the sum's step they train; the other steps are a message each.
// Together, these deadlines are the attempt's.
void SetSteps(const RunParts& parts, const ServerConfig& server, bool enforce_deadline, RunRules& rules) {
  rules.barriers.resize(static_cast<size_t>(parts.steps - 1));
  rules.sum_step = parts.sum_step;
  if (!enforce_deadline) return;
  for (size_t step = 0; step < rules.barriers.size(); ++step) {
    const double message = std::min(server.deadline_seconds / 12, 2 * server.lease_seconds);
    const double seconds = step == 0                                     ? server.deadline_seconds / 4
                           : step == static_cast<size_t>(parts.sum_step) ? server.deadline_seconds / 2
                                                                         : message;
    rules.barriers[step].deadline_ms = static_cast<int64_t>(seconds * 1000);
  }
}

// The key that cohorts are drawn from: secret, or from the seed if no secrecy is needed. Null: cohorts depend on the
// seed alone.
std::shared_ptr<const privacy::NoiseKey> CohortKeyOf(const Scenario& scenario, const RunPrivacy* privacy) {
  if (privacy != nullptr) return privacy->key();
  if (scenario.selection.name != kPoissonSelector) return nullptr;
  return std::make_shared<const privacy::NoiseKey>(privacy::SeededKey(scenario.run.seed));
}

// The share of all members that is in every cohort, for a simulation with known and always present members. 1: it
// varies, and no amplification is claimed.
double FixedShareOf(const CoordinatorOptions& options) {
  const Scenario& scenario = options.scenario;
  if (options.enforce_deadline || options.fleet != nullptr || options.population == nullptr ||
      options.population->open() || scenario.selection.name != "uniform" || !scenario.selection.trace.empty()) {
    return 1;
  }
  return std::min(1.0, static_cast<double>(scenario.server.clients_asked()) /
                           static_cast<double>(std::max<int64_t>(options.population->size(), 1)));
}

StatusOr<RunRules> RulesOf(const CoordinatorOptions& options, const RunParts& parts, const std::string& run_id,
                           const RunPrivacy* privacy) {
  const ServerConfig& server = options.scenario.server;
  RunRules rules;
  RIVULET_RETURN_IF_ERROR(AddSelection(options, rules));
  rules.run_id = run_id;
  rules.seed = options.scenario.run.seed;
  rules.rounds = options.scenario.run.rounds;
  rules.cohort_key = CohortKeyOf(options.scenario, privacy);
  const bool poisson = rules.selector->rate() < 1;
  rules.policy.in_flight = poisson ? parts.aggregation.updates_per_version : server.clients_asked();
  rules.policy.updates_per_version = parts.aggregation.updates_per_version;
  const bool latest = parts.policy.base == TaskPolicy::Base::kLatest;
  if (latest) {
    rules.policy.in_flight = parts.policy.in_flight;
    rules.policy.base_policy = RoundPolicy::BasePolicy::kLatest;
    rules.policy.max_staleness = parts.policy.max_staleness;
  }
  // If all selected clients are waited for, the order of arrivals has no effect.
  if (latest || rules.policy.in_flight > rules.policy.updates_per_version) rules.task_time = options.task_time;
  if (options.fleet != nullptr) {
    rules.fleet = options.fleet;
    rules.fleet_deadline = static_cast<VirtualTime>(server.deadline_seconds * 1e6);
    rules.fleet_lease = static_cast<VirtualTime>(server.lease_seconds * 1e6);
  }
  rules.min_clients = server.min_clients > 0 ? server.min_clients
                      : options.scenario.data.partition.clients > 0 && !ChoosesMembers(options.scenario.selection)
                          ? options.scenario.data.partition.clients
                          : std::max(server.clients_per_round, poisson ? 0 : rules.policy.in_flight);
  // A cohort with replacements is no sample of the accounted rate.
  rules.policy.replace = privacy == nullptr || !privacy->samples();
  rules.min_reports =
      server.min_reports > 0 ? server.min_reports
      : poisson              ? 1
                             : DefaultMinReports(latest ? rules.policy.updates_per_version
                                                        : std::min(rules.policy.in_flight, rules.policy.updates_per_version));
  rules.may_be_empty = poisson && server.min_reports == 0 && IsDefinedWithoutUpdates(parts.aggregation);
  if (parts.aggregation.secure.on()) {
    rules.min_reports = std::max(rules.min_reports, parts.aggregation.secure.min_survivors);
  }
  if (parts.steps > 1) SetSteps(parts, server, options.enforce_deadline, rules);
  const EvaluationConfig& evaluation = options.scenario.evaluation;
  rules.evaluation.every = evaluation.federated_every;
  rules.evaluation.clients = evaluation.federated_clients > 0 ? evaluation.federated_clients : server.clients_per_round;
  rules.evaluation.min_reports = DefaultMinReports(rules.evaluation.clients);
  if (parts.evaluation.secure.on()) {
    rules.evaluation.min_reports = std::max(rules.evaluation.min_reports, parts.evaluation.secure.min_survivors);
  }
  rules.max_attempts = server.max_attempts;
  if (options.enforce_deadline) {
    rules.deadline_ms = static_cast<int64_t>(server.deadline_seconds * 1000);
    rules.lease_ms = std::max<int64_t>(static_cast<int64_t>(server.lease_seconds * 1000), 1);
    rules.presence_ms = std::max<int64_t>(static_cast<int64_t>(server.presence_seconds * 1000), 1);
    rules.retry.first_pause_ms = kFirstPauseMs;
  } else if (server.max_attempts == 0) {
    // A failure repeats: the data and the machine are the same.
    rules.max_attempts = kSimulatedAttempts;
  }
  return rules;
}

// A federation whose scenario gives no number of clients accepts as many names as one machine may plausibly serve, but
// not as many as an attacker can invent.
constexpr int64_t kMostUncounted = int64_t{1} << 20;

// Without those of `known`, which are members already.
std::shared_ptr<Population> PopulationOf(const CoordinatorOptions& options, const NumberRule* number_rule,
                                         int64_t known) {
  if (options.population != nullptr) return options.population;
  const int64_t clients = options.scenario.data.partition.clients;
  const int64_t room = number_rule == nullptr ? kMostUncounted : std::min(kMostUncounted, number_rule->most_clients());
  return OpenPopulation(std::max(clients > 0 ? clients : room, known));
}

// If a scenario gives no number of clients, the data determine it.
Status CheckMembers(const CoordinatorOptions& options, const NumberRule& number_rule) {
  const int64_t members =
      options.population != nullptr ? options.population->size() : options.scenario.data.partition.clients;
  if (members <= number_rule.most_clients()) return absl::OkStatus();
  return InvalidArgument(
      "[algorithm] name = \"{}\" keeps numbers of each client in each version, and there are {} clients; take at most "
      "{} (data.partition.clients)",
      options.scenario.algorithm.name, members, number_rule.most_clients());
}

// A run that resumed with another learning rate would have rows that cannot be reproduced. Its execution, and the
// places of its files, may change.
Status CheckSameConfig(const RunRow& run, const Scenario& given) {
  StatusOr<Scenario> stored =
      Scenario::ParseStored(run.config, fmt::format("the stored configuration of run {}", run.run_id));
  if (!stored.ok()) {
    return FailedPrecondition("run '{}' cannot be resumed by this program: {}", run.run_id, Message(stored.status()));
  }
  if (const Status same = CheckSamePlanKeys(*stored, given); !same.ok()) {
    return FailedPrecondition("run '{}' cannot be resumed so: {}", run.run_id, Message(same));
  }
  return absl::OkStatus();
}

// A supplied plan and the scenario's server parts may come from two programs, so they are compared.
Status CheckServer(const RunParts& parts, const ServerOptimizer& optimizer) {
  const std::vector<ServerOptimizer::Flat> flats = optimizer.Flats();
  for (const std::string& name : parts.broadcasts) {
    const std::string kept = fmt::format("{}{}", kServerPrefix, name);
    if (std::ranges::find(flats, kept, &ServerOptimizer::Flat::name) != flats.end()) continue;
    return InvalidArgument(
        "the plan has clients read '{}' of each version, and the server optimiser '{}' keeps no '{}'", name,
        parts.server_optimizer.name, kept);
  }
  const std::vector<std::string> models = optimizer.Models();
  if (parts.aggregation.Find("delta")->optional && models.empty()) {
    return InvalidArgument("the server optimiser '{}' takes a delta of every update, and the plan's may have none",
                           parts.server_optimizer.name);
  }
  for (const std::string& name : optimizer.Parts()) {
    const PartSpec* const part = parts.aggregation.Find(name);
    // Only optimisers that keep separate models may step without a part that no update of a version has.
    if (part != nullptr && part->elements == parts.layout->parameters() &&
        (!part->optional || std::ranges::find(models, name) != models.end())) {
      continue;
    }
    return InvalidArgument("the server optimiser '{}' takes {} elements of part '{}', and the plan's updates have {}",
                           parts.server_optimizer.name, parts.layout->parameters(), name,
                           part == nullptr ? 0 : part->elements);
  }
  return absl::OkStatus();
}

std::string DescribeAggregation(const AggregationSpec& spec) {
  std::string parts;
  for (const PartSpec& part : spec.parts) {
    parts += fmt::format(" {} in multiples of 2^-{} with values up to 2^{},", part.name, spec.fraction_bits(part),
                         part.value_bits);
  }
  return fmt::format("{}: sums of{} weights up to {}, at most {} updates a version", spec.rule, parts, spec.max_weight,
                     spec.updates_per_version);
}

// A sentence that names the adversaries from which the sums of a full cohort are safe.
std::string DescribeSecureSums(const AggregationSpec& spec, int64_t cohort, bool with_keys) {
  if (!with_keys) {
    return "updates are summed by the arithmetic of secure aggregation without keys, which hides nothing";
  }
  const secure::GraphNeeds needs = secure::NeedsOf(secure::SettingsOf(spec.secure, spec.sum_bits()), cohort);
  const StatusOr<secure::GraphShape> shape = secure::ChooseGraph(needs);
  if (!shape.ok()) return std::string(Message(shape.status()));
  return fmt::format(
      "secure aggregation by {}: in a cohort of {} each client has {} neighbours, of which {} give its secret; a lying "
      "coordinator with {} colluding clients learns no sum of fewer than {} honest ones",
      spec.secure.protocol, cohort, shape->neighbours, shape->threshold, needs.colluding,
      secure::SmallestHonestSum(needs, *shape));
}

// Versions that the server makes are finite; the initial one may not be.
Status CheckTravels(const CoordinatorOptions& options, const RunParts& parts, const Model& first) {
  RIVULET_ASSIGN_OR_RETURN(const auto download, Download::Create(parts.download, parts.layout));
  if (download == nullptr) return absl::OkStatus();
  const auto sent = download->Send(first, options.scenario.run.seed, 0);
  if (sent.ok()) return absl::OkStatus();
  return FailedPrecondition("the model that the run begins with cannot travel as '{}' (server.download): {}",
                            parts.download, Message(sent.status()));
}

// By the codec of the plan, with which clients decode.
Status SetDownload(const CoordinatorOptions& options, const RunParts& parts, ModelStore& models) {
  RIVULET_ASSIGN_OR_RETURN(auto download, Download::Create(parts.download, parts.layout));
  models.SendBy(std::move(download), options.scenario.run.seed);
  return absl::OkStatus();
}

// Runs before anything of the run is written. A simulation's sites are in this process, with their sums in memory.
Status ReserveSums(const CoordinatorOptions& options, const History& history, RunParts& parts) {
  if (options.scenario.server.partial != "disk" || !options.enforce_deadline) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(parts.sum_files, SumFiles::Create(FolderOf(history.real_path()), parts.aggregation));
  return absl::OkStatus();
}

constexpr char kDeviceSource[] = "device";  // of events that name the device that trains

std::string DeviceSentence(const std::string& trained_on) {
  return trained_on.empty() ? "clients are trained on the host"
                            : fmt::format("clients are trained on '{}'", trained_on);
}

// `config`: the scenario that the run began with. A simulation has no coordinator's certificate.
std::unique_ptr<RecordMaker> RecordsOf(const std::string& run_id, std::string_view config,
                                       const CoordinatorOptions& options, const RunParts& parts) {
  return std::make_unique<RecordMaker>(RecordMaker::Run{run_id, ProgramVersion(), parts.plan_digest, Sha256Of(config)},
                                       options.enforce_deadline ? options.identity : nullptr);
}

// The record of a run's first version, or of the one from which a run of an earlier program resumes.
StatusOr<RecordRow> FirstRecord(RecordMaker& maker, const ServedVersion& version, int64_t now) {
  records::RecordChain chain;
  RIVULET_ASSIGN_OR_RETURN(RecordRow row,
                           maker.Make({.version = version.row.round, .made_ms = now, .model = version.digest}, chain));
  maker.SetDurable(std::move(chain));
  return row;
}

// The stored chain, ready for the version after `current`; an empty one if the run has no records yet.
StatusOr<std::unique_ptr<RecordMaker>> StoredRecords(History& history, const RunRow& run, const ServedVersion& current,
                                                     const CoordinatorOptions& options, const RunParts& parts) {
  RIVULET_ASSIGN_OR_RETURN(const auto began_with, history.FindBlob(run.run_id, kConfigurationBlob));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RecordRow> rows, history.Records(run.run_id));
  const std::string config = began_with ? began_with->second.bytes : options.scenario.ToToml();
  auto maker = RecordsOf(run.run_id, config, options, parts);
  RIVULET_RETURN_IF_ERROR(maker->Resume(rows));
  if (maker->chain().empty()) return maker;
  const records::VersionRecord& last = maker->chain().last();
  if (last.version != current.row.round || last.model != current.digest) {
    return DataLoss(
        "the newest record of run '{}' is of version {} with the model {}, and its rows have version {} with the model "
        "{}; the history was changed: restore it from a copy",
        run.run_id, last.version, last.model.Hex(), current.row.round, current.digest.Hex());
  }
  if (last.configuration != Sha256Of(config)) {
    return DataLoss("the configuration that run '{}' began with was changed in the history; restore it from a copy",
                    run.run_id);
  }
  return maker;
}

// The model's file comes before the row that names it, as in every commit: a start that fails in between leaves a file
// that the next start removes.
StatusOr<CoordinatorSetup> NewRun(CoordinatorOptions options, RunParts parts, const ServerOptimizer& optimizer,
                                  const NumberRule* number_rule, StopRule stop_rule) {
  FileSystem& fs = options.file_system != nullptr ? *options.file_system : FileSystem::Default();
  CoordinatorSetup setup;
  setup.stop_rule = std::move(stop_rule);
  setup.last_round = options.scenario.run.rounds;
  const int64_t now = NowUnixMs(options);
  // Among many runs that start in one second, two may draw the same digits; then the first one's folder exists.
  do {
    setup.run_id = NewRunId(options.scenario.run.name, now);
  } while (fs.Exists(JoinPath(FolderOf(options.db_path), History::ModelsFolder(options.db_path, setup.run_id))));
  // All faults of the scenario are found before anything is written.
  RIVULET_ASSIGN_OR_RETURN(setup.privacy, RunPrivacy::Create(options.scenario, parts, FixedShareOf(options)));
  RIVULET_ASSIGN_OR_RETURN(RunRules rules, RulesOf(options, parts, setup.run_id, setup.privacy.get()));
  RIVULET_ASSIGN_OR_RETURN(setup.machine,
                           RunMachine::Create(std::move(rules), {.population = PopulationOf(options, number_rule, 0)}));
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Model> initial, parts.initial_model());
  RIVULET_RETURN_IF_ERROR(CheckTravels(options, parts, *initial));
  RIVULET_ASSIGN_OR_RETURN(ServerState first, FirstState(std::move(initial), optimizer, parts.draw_model));
  if (number_rule != nullptr) first.numbers = std::make_shared<const ServerNumbers>(number_rule->First());
  RIVULET_ASSIGN_OR_RETURN(setup.history, History::Open(options.db_path, History::Access::kReadWrite));
  RIVULET_RETURN_IF_ERROR(ReserveSums(options, *setup.history, parts));
  RIVULET_ASSIGN_OR_RETURN(setup.models,
                           ModelStore::Open(fs, setup.history->real_path(), setup.run_id, ModelStore::Folder::kNew,
                                            parts.broadcasts, parts.layout_metadata));
  RIVULET_RETURN_IF_ERROR(SetDownload(options, parts, *setup.models));
  RIVULET_RETURN_IF_ERROR(setup.models->WritePlan(*parts.plan));
  if (setup.privacy != nullptr) RIVULET_RETURN_IF_ERROR(setup.privacy->WriteKey(fs, setup.models->folder()));
  setup.models->StateRecords();
  RIVULET_ASSIGN_OR_RETURN(setup.current, setup.models->Describe(0, std::move(first)));
  const std::string config = options.scenario.ToToml();
  setup.records = RecordsOf(setup.run_id, config, options, parts);
  RIVULET_ASSIGN_OR_RETURN(const RecordRow record, FirstRecord(*setup.records, setup.current, now));
  RIVULET_RETURN_IF_ERROR(setup.models->Write(setup.current, record.digest));
  setup.model_rows = {setup.current.row};
  RunRow run;
  run.run_id = setup.run_id;
  run.name = options.scenario.run.name;
  run.status = "running";
  run.config = config;
  run.plan_digest = parts.plan_digest.Hex();
  run.seed = options.scenario.run.seed;
  run.version = ProgramVersion();
  run.created_at = run.started_at = Iso8601(now);
  std::vector<EventRow> events = {
      {setup.run_id,
       {},
       run.created_at,
       "info",
       "run",
       fmt::format("started for {} rounds", options.scenario.run.rounds)},
      {setup.run_id, {}, run.created_at, "info", "aggregation", DescribeAggregation(parts.aggregation)}};
  if (parts.aggregation.secure.on()) {
    const char* const level = parts.steps > 1 ? "info" : "warning";
    events.push_back(
        {setup.run_id,
         {},
         run.created_at,
         level,
         "aggregation",
         DescribeSecureSums(parts.aggregation, options.scenario.server.clients_per_round, parts.steps > 1)});
  }
  if (!options.trained_on.empty()) {
    events.push_back({setup.run_id, {}, run.created_at, "info", kDeviceSource, DeviceSentence(options.trained_on)});
  }
  if (setup.privacy != nullptr) {
    events.push_back({setup.run_id, {}, run.created_at, "info", "privacy", setup.privacy->Sentence()});
  }
  if (std::string why = setup.records->WhyUnsigned(); !why.empty()) {
    events.push_back({setup.run_id,
                      {},
                      run.created_at,
                      "warning",
                      "run",
                      fmt::format("the records of its versions are not signed: {}", why)});
  }
  RIVULET_RETURN_IF_ERROR(setup.history->AddRun(run, setup.current.row, events, &record));
  setup.options = std::move(options);
  setup.parts = std::move(parts);
  return setup;
}

// The version at which a run resumes: the newest in its rows, or the one before it, whose file is also kept, if the
// newest file is missing.
StatusOr<ModelRow> BaseOf(const ModelStore& models, const std::string& db_path, std::span<const ModelRow> rows,
                          int64_t committed_round, const std::string& run_id) {
  const auto newest =
      std::find_if(rows.begin(), rows.end(), [&](const ModelRow& row) { return row.round == committed_round; });
  if (newest == rows.end()) {
    return DataLoss("the history '{}' is damaged: it has no model of round {} of run '{}'", db_path, committed_round,
                    run_id);
  }
  if (models.Has(committed_round)) return *newest;
  const auto before = std::find_if(rows.rbegin(), rows.rend(), [&](const ModelRow& row) {
    return row.round < committed_round && !row.path.empty() && models.Has(row.round);
  });
  return before == rows.rend() ? *newest : *before;
}

// Replays earlier measures into the rule. Gives whether the run was to end with the newest version.
StatusOr<bool> EndsWithNewest(History& history, const std::string& run_id, int64_t newest, StopRule& rule) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<MetricRow> metrics, history.Metrics(run_id));
  std::map<int64_t, std::map<std::string, Measure>> measured;
  for (const MetricRow& metric : metrics) {
    const double value = metric.value.value_or(std::numeric_limits<double>::quiet_NaN());
    if (metric.round <= newest) measured[metric.round][metric.name] = {value, metric.right, metric.total};
  }
  bool ends = false;
  for (const auto& [round, central] : measured) {
    RIVULET_ASSIGN_OR_RETURN(const std::string why, rule.After(central));
    ends = round == newest && !why.empty();
  }
  return ends;
}

// Versions that a crash left unmeasured, as far as their models may still exist; none once the last version is
// measured.
std::vector<int64_t> DueEvaluations(int64_t every, int64_t last_round, const ResumePoint& point) {
  const int64_t newest = point.committed_round;
  const auto due = [&](int64_t version) {
    return version > 0 && (version % every == 0 || version == last_round) &&
           std::ranges::find(point.measured, version) == point.measured.end();
  };
  std::vector<int64_t> versions;
  if (every == 0 || (newest == last_round && !due(newest))) return versions;
  for (const int64_t version : {newest - 1, newest}) {
    if (due(version)) versions.push_back(version);
  }
  return versions;
}

// As in the snapshot that was written with the newest rows. If it is missing, of other rows or another program, or
// lacks a base model of its tasks, then as in the rows: the interrupted cohort is drawn again, and open tasks from
// older versions are dropped.
StatusOr<RunMachine> StoredRounds(History& history, const CoordinatorOptions& options, const RunRules& rules,
                                  RunStart start, const std::function<std::shared_ptr<Population>()>& population,
                                  const std::function<bool(int64_t version)>& has, TimeMs now) {
  RIVULET_ASSIGN_OR_RETURN(const auto blob, history.FindBlob(rules.run_id, kSnapshotBlob));
  start.population = population();
  if (blob && rules.barriers.empty()) {
    StatusOr<RunMachine> resumed = RunMachine::Resume(rules, blob->second.bytes, start, now);
    if (resumed.ok() && std::ranges::all_of(resumed->NeededVersions(), has)) return resumed;
    start.population = population();  // the other one may have taken in new names
  }
  if (rules.selector->remembers()) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<ParticipationRow> rows, history.Participations(rules.run_id));
    for (const ParticipationRow& row : rows) {
      start.participations[row.client_id] = {row.version, row.versions, row.examples, row.train_loss,
                                             DurationOf(options, row.client_id, row.train_seconds)};
    }
  }
  if (rules.fleet != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<MetricRow> metrics, history.Metrics(rules.run_id, "federated"));
    for (const MetricRow& metric : metrics) {
      if (metric.name != kVirtualSeconds || metric.round != start.committed_round) continue;
      start.virtual_now = std::llround(metric.value.value_or(0) * 1e6);
    }
  }
  return RunMachine::Create(rules, std::move(start));
}

// The device that its events name, if they do.
StatusOr<std::string> StoredDevice(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<EventRow> events, history.Events(run_id));
  std::string sentence = DeviceSentence("");
  for (const EventRow& event : events) {
    if (event.source == kDeviceSource) sentence = event.message;
  }
  return sentence;
}

// Another device sums in another order, so bits differ: a run stays on the device that trained its first version.
Status CheckSameDevice(const RunRow& run, const std::string& stored, const std::string& now, int64_t committed_round) {
  if (committed_round == 0 || stored == now) return absl::OkStatus();
  return FailedPrecondition(
      "run '{}' says of its {} rounds that {}, and now {}; a run's updates are those of one model of GPU, or of the "
      "host: resume it there, or start it anew",
      run.run_id, committed_round, stored, now);
}

// A simulation has the bits of an uninterrupted run. If its tasks outlive versions, some are always open when a version
// is made. Rows say that the last of them are in no version; a longer run would have used them.
Status CheckExtends(const RunRow& run, const RunRules& rules, int64_t committed_round) {
  const bool over_versions = rules.policy.base_policy == RoundPolicy::BasePolicy::kLatest;
  if (rules.rounds <= committed_round || !over_versions || !rules.arrivals_are_ordered()) return absl::OkStatus();
  return FailedPrecondition(
      "run '{}' has finished with {} rounds, and its versions lack the updates that were under way then. More rounds "
      "would differ from a simulation of {} rounds; simulate {} rounds anew, and the first {} are the same",
      run.run_id, committed_round, rules.rounds, rules.rounds, committed_round);
}

// Everything is compared with the row before anything is written: the configuration, the plan that it builds today, and
// the files of its models.
StatusOr<CoordinatorSetup> StoredRun(CoordinatorOptions options, RunParts parts, const ServerOptimizer& optimizer,
                                     const NumberRule* number_rule, StopRule stop_rule) {
  FileSystem& fs = options.file_system != nullptr ? *options.file_system : FileSystem::Default();
  CoordinatorSetup setup;
  setup.resumed = true;
  {
    // Opened for reading first: a mistyped name leaves no file.
    RIVULET_ASSIGN_OR_RETURN(const auto reader, History::Open(options.db_path, History::Access::kReadOnly));
    RIVULET_RETURN_IF_ERROR(reader->ResolveRun(options.resume).status());
  }
  RIVULET_ASSIGN_OR_RETURN(setup.history, History::Open(options.db_path, History::Access::kReadWrite));
  RIVULET_ASSIGN_OR_RETURN(RunRow run, setup.history->ResolveRun(options.resume));
  setup.run_id = run.run_id;
  RIVULET_ASSIGN_OR_RETURN(setup.models,
                           ModelStore::Open(fs, setup.history->real_path(), run.run_id, ModelStore::Folder::kStored,
                                            parts.broadcasts, parts.layout_metadata));
  RIVULET_RETURN_IF_ERROR(SetDownload(options, parts, *setup.models));
  RIVULET_RETURN_IF_ERROR(CheckSameConfig(run, options.scenario));
  // Later programs build other plans from one scenario; the stored plan is used again. A run without one is an older
  // program's, and its configuration determines its plan.
  RIVULET_ASSIGN_OR_RETURN(const std::optional<std::string> kept_plan,
                           ModelStore::ReadPlan(fs, setup.history->real_path(), run.run_id, run.plan_digest));
  const bool other_plan = run.plan_digest != parts.plan_digest.Hex();
  if (other_plan && kept_plan) {
    return FailedPrecondition(
        "run '{}' was started with the plan {}, and is given {}; resume it with the plan that it keeps", run.run_id,
        run.plan_digest, parts.plan_digest.Hex());
  }
  RIVULET_ASSIGN_OR_RETURN(ResumePoint point, setup.history->FindResumePoint(run.run_id));
  RIVULET_ASSIGN_OR_RETURN(setup.model_rows, setup.history->Models(run.run_id));
  const std::vector<ModelRow>& rows = setup.model_rows;
  RIVULET_ASSIGN_OR_RETURN(const ModelRow base,
                           BaseOf(*setup.models, options.db_path, rows, point.committed_round, run.run_id));
  // If only two files are kept, the other one may be missing.
  if (options.scenario.run.keep_models == "all") {
    std::vector<ModelRow> needed = rows;
    std::erase_if(needed, [&](const ModelRow& row) { return row.round > base.round; });
    RIVULET_RETURN_IF_ERROR(setup.models->CheckFiles(needed));
  }
  RIVULET_ASSIGN_OR_RETURN(setup.current, setup.models->Load(base, parts.layout, optimizer));
  if (base.round < point.committed_round && parts.noise.any()) {
    return FailedPrecondition(
        "the model of round {} of run '{}' is missing. It was released with noise, and to make it again from other "
        "updates with the same noise would reveal their difference; restore the file from a copy",
        point.committed_round, run.run_id);
  }
  if (base.round < point.committed_round) {
    const EventRow event = {
        run.run_id,
        base.round + 1,
        Iso8601(NowUnixMs(options)),
        "warning",
        "run",
        fmt::format("the model of round {} is missing; the run resumes from round {} and makes the later rounds again",
                    point.committed_round, base.round)};
    RIVULET_RETURN_IF_ERROR(setup.history->GoBack(run.run_id, base.round, std::span(&event, 1)));
    RIVULET_ASSIGN_OR_RETURN(point, setup.history->FindResumePoint(run.run_id));
    RIVULET_ASSIGN_OR_RETURN(setup.model_rows, setup.history->Models(run.run_id));
  }
  RunStart start;
  start.committed_round = point.committed_round;
  start.attempt = point.next_attempt;
  // Clients keep the secrets of steps in memory and answer no task twice. So an interrupted attempt is over, and tasks
  // of earlier processes without rows have other names.
  if (parts.steps > 1) {
    start.attempts_before = point.resumes + 1;
    start.attempt += start.attempts_before;
  }
  start.leases = std::move(point.leases);
  if (parts.policy.base == TaskPolicy::Base::kLatest && options.task_time == nullptr) {
    start.first_ordinal = static_cast<uint16_t>((point.resumes + 1) * kOrdinalsOfAProcess);
  }
  for (RunClient& client : point.clients) {
    start.candidates.push_back({std::move(client.client_id), client.from_round, client.from_attempt});
  }
  std::set<int64_t> before;
  const auto has = [&](int64_t version) {
    const auto row = std::ranges::find(rows, version, &ModelRow::round);
    return row != rows.end() && !row->path.empty() && setup.models->Has(version);
  };
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RoundRow> attempts, setup.history->Rounds(run.run_id));
  RIVULET_ASSIGN_OR_RETURN(setup.privacy, RunPrivacy::Resume(options.scenario, parts, FixedShareOf(options), fs,
                                                             setup.models->folder(), attempts));
  RIVULET_ASSIGN_OR_RETURN(RunRules rules, RulesOf(options, parts, run.run_id, setup.privacy.get()));
  RIVULET_ASSIGN_OR_RETURN(bool ends, EndsWithNewest(*setup.history, run.run_id, point.committed_round, stop_rule));
  if (setup.privacy != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(const std::string exhausted, setup.privacy->Exhausted());
    if (!exhausted.empty() && point.committed_round == 0) {
      return FailedPrecondition("run '{}' cannot be resumed: {}", run.run_id, exhausted);
    }
    ends = ends || !exhausted.empty();
  }
  if (ends) rules.rounds = point.committed_round;
  setup.last_round = rules.rounds;
  setup.stop_rule = std::move(stop_rule);
  for (const int64_t version : DueEvaluations(options.scenario.evaluation.federated_every, setup.last_round, point)) {
    if (version != point.committed_round) {
      if (!has(version)) continue;
      before.insert(version);
    }
    start.evaluations.push_back(version);
  }
  if (run.status == "finished") RIVULET_RETURN_IF_ERROR(CheckExtends(run, rules, point.committed_round));
  RIVULET_ASSIGN_OR_RETURN(
      setup.machine, StoredRounds(
                         *setup.history, options, rules, std::move(start),
                         [&] { return PopulationOf(options, number_rule, static_cast<int64_t>(point.clients.size())); },
                         has, options.now_ms ? options.now_ms() : 0));
  for (const int64_t version : setup.machine->NeededVersions()) before.insert(version);
  for (const int64_t version : before) {
    const auto row = std::ranges::find(rows, version, &ModelRow::round);
    RIVULET_ASSIGN_OR_RETURN(setup.before.emplace_back(), setup.models->Load(*row, parts.layout, optimizer));
  }
  if (parts.keeps_state || options.names_states) {
    const std::optional<int64_t> oldest = setup.machine->oldest_to_measure();
    if (parts.measures_state && oldest) {
      RIVULET_ASSIGN_OR_RETURN(setup.folded, setup.history->NewestFolded(run.run_id, *oldest));
    }
    RIVULET_ASSIGN_OR_RETURN(const std::vector<TaskId> newest, setup.history->NewestFolded(run.run_id));
    setup.folded.insert(setup.folded.end(), newest.begin(), newest.end());
  }
  setup.already_finished = setup.machine->phase() == RunMachine::Phase::kFinished;
  if (!setup.already_finished) {
    RIVULET_ASSIGN_OR_RETURN(setup.records, StoredRecords(*setup.history, run, setup.current, options, parts));
    setup.models->StateRecords();
    RIVULET_RETURN_IF_ERROR(ReserveSums(options, *setup.history, parts));
    if (!kept_plan) RIVULET_RETURN_IF_ERROR(setup.models->WritePlan(*parts.plan));
    const std::string at = Iso8601(NowUnixMs(options));
    const std::string device = DeviceSentence(options.trained_on);
    RIVULET_ASSIGN_OR_RETURN(const std::string stored_device, StoredDevice(*setup.history, run.run_id));
    RIVULET_RETURN_IF_ERROR(CheckSameDevice(run, stored_device, device, point.committed_round));
    std::vector<EventRow> events = {
        {run.run_id,
         {},
         at,
         "info",
         "run",
         fmt::format("{} {} for {} rounds", kResumedEvent, point.committed_round, options.scenario.run.rounds)}};
    if (device != stored_device) events.push_back({run.run_id, {}, at, "info", kDeviceSource, device});
    if (other_plan) {
      events.push_back({run.run_id,
                        {},
                        at,
                        "warning",
                        "run",
                        fmt::format("its plan {} was not kept; built again by this program it is {}", run.plan_digest,
                                    parts.plan_digest.Hex())});
    }
    run.config = options.scenario.ToToml();
    run.plan_digest = parts.plan_digest.Hex();
    run.version = ProgramVersion();
    std::optional<RecordRow> first;
    if (setup.records->chain().empty()) {
      RIVULET_ASSIGN_OR_RETURN(first, FirstRecord(*setup.records, setup.current, NowUnixMs(options)));
    }
    RIVULET_RETURN_IF_ERROR(setup.history->ReopenRun(run, events, first ? &*first : nullptr));
  }
  // While a reader keeps the file in an older state, that state's model is kept too.
  RIVULET_ASSIGN_OR_RETURN(const CheckpointProgress brought, setup.history->BringOver());
  if (brought.whole()) RIVULET_RETURN_IF_ERROR(setup.models->RemoveUnnamed(rows));
  setup.options = std::move(options);
  setup.parts = std::move(parts);
  return setup;
}

Status CheckNumbers(const CoordinatorSetup& setup) {
  const auto check = [&](const ServedVersion& version) -> Status {
    if (version.numbers != nullptr) return absl::OkStatus();
    return FailedPrecondition(
        "the model of round {} of run '{}' lacks the server's numbers, which a resumed run needs; restore it from a "
        "copy",
        version.row.round, setup.run_id);
  };
  RIVULET_RETURN_IF_ERROR(check(setup.current));
  for (const ServedVersion& version : setup.before) RIVULET_RETURN_IF_ERROR(check(version));
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Coordinator>> CreateCoordinator(CoordinatorOptions options, RunParts parts) {
  if (options.db_path.empty()) return InvalidArgument("a run needs a history: give the database's file name");
  const PartSpec* const delta = parts.aggregation.Find("delta");
  if (delta == nullptr || delta->elements != parts.layout->update_elements()) {
    return InvalidArgument("the plan aggregates {} elements of a delta and its model's updates have {}",
                           delta == nullptr ? 0 : delta->elements, parts.layout->update_elements());
  }
  RIVULET_RETURN_IF_ERROR(Aggregation::Create(parts.aggregation).status());
  if (const int64_t every = options.scenario.evaluation.federated_every; every > 0) {
    if (parts.evaluation.scalars.empty()) {
      return FailedPrecondition(
          "evaluation.federated_every is {}, and the run's plan does not say how to measure, as it was built with 0; "
          "leave it at that, or start a run with another plan",
          every);
    }
    RIVULET_RETURN_IF_ERROR(Aggregation::Create(parts.evaluation).status());
  }
  RIVULET_ASSIGN_OR_RETURN(auto optimizer,
                           ServerOptimizer::Create(parts.server_optimizer, options.scenario.server.average));
  RIVULET_RETURN_IF_ERROR(CheckServer(parts, *optimizer));
  RIVULET_ASSIGN_OR_RETURN(MeanMechanisms mechanisms,
                           MeanMechanisms::Create(parts.mean_mechanisms, options.scenario.run.seed));
  RIVULET_ASSIGN_OR_RETURN(auto number_rule, NumberRule::For(parts.numbers, parts.number_rule));
  if (number_rule != nullptr) RIVULET_RETURN_IF_ERROR(CheckMembers(options, *number_rule));
  RIVULET_ASSIGN_OR_RETURN(StopRule stop_rule, StopRule::Create(options.scenario.run));
  const auto set_up = options.resume.empty() ? NewRun : StoredRun;
  RIVULET_ASSIGN_OR_RETURN(CoordinatorSetup setup, set_up(std::move(options), std::move(parts), *optimizer,
                                                          number_rule.get(), std::move(stop_rule)));
  if (number_rule != nullptr) RIVULET_RETURN_IF_ERROR(CheckNumbers(setup));
  // Version 0 is freed when no task needs it any more.
  setup.parts.initial_model = nullptr;
  setup.options.initial_model = nullptr;
  setup.optimizer = std::move(optimizer);
  setup.mean_mechanisms = std::move(mechanisms);
  setup.number_rule = std::move(number_rule);
  return std::make_unique<RunCoordinator>(std::move(setup));
}

}  // namespace rivulet
