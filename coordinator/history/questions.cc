#include "coordinator/history/questions.h"

#include <algorithm>

#include "coordinator/history/tables.h"

namespace rivulet {
namespace {

constexpr int64_t kScopeOfClients = 2;  // index in kScopes

std::string TextOf(const SqlShown& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? *text : "";
}
int64_t IntegerOf(const SqlShown& value) {
  const auto* integer = std::get_if<int64_t>(&value);
  return integer != nullptr ? *integer : 0;
}
std::optional<double> NumberOf(const SqlShown& value) {
  const auto* number = std::get_if<double>(&value);
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

// As in the view of tasks: "" for a number that this program never writes.
std::string StateOf(const SqlShown& value) {
  const auto state = static_cast<uint64_t>(IntegerOf(value));
  return state < kTaskStates.size() ? std::string(kTaskStates[state]) : "";
}

}  // namespace

// Reads tables, since the views compute an id and a digest for every task that is read. CROSS JOIN makes
// SQLite keep this order: among the newest attempts with unsuccessful tasks, the first that has one of this
// client.
StatusOr<std::vector<ClientFailuresRow>> ClientFailures(History& history, const std::string& run_id,
                                                        std::span<const ClientReliabilityRow> clients) {
  std::vector<ClientFailuresRow> rows;
  for (const ClientReliabilityRow& client : clients) {
    if (client.folded == client.tasks) continue;
    RIVULET_ASSIGN_OR_RETURN(
        const SqlAnswer answer,
        history.Ask(
            fmt::format("SELECT a.round, t.status, t.error FROM client c CROSS JOIN attempt a CROSS JOIN task t\n"
                        "WHERE c.client_id = ? AND a.run = (SELECT run FROM run WHERE run_id = ?)\n"
                        "  AND a.refused + a.dropped + a.failed > 0 AND t.attempt_key = a.attempt_key\n"
                        "  AND t.client = c.client AND t.status <> {}\n"
                        "ORDER BY a.round DESC, a.attempt DESC, a.kind DESC LIMIT 1",
                        kFolded),
            {client.client_id, run_id}));
    if (answer.rows.empty()) continue;  // its rows were removed, their sums were not
    const auto& row = answer.rows.front();
    rows.push_back(
        {client.client_id, client.tasks - client.folded, IntegerOf(row[0]), StateOf(row[1]), TextOf(row[2])});
  }
  return rows;
}

// Reads the table: the view includes training losses, which belong to tasks and have no index.
StatusOr<std::vector<std::string>> ClientMetricNames(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(
      const SqlAnswer answer,
      history.Ask(fmt::format("SELECT DISTINCT name FROM metric WHERE run = (SELECT run FROM run WHERE run_id = ?) "
                              "AND scope = {}",
                              kScopeOfClients),
                  {run_id}));
  std::vector<std::string> names;
  names.reserve(answer.rows.size());
  for (const auto& row : answer.rows) names.push_back(TextOf(row[0]));
  return names;
}

StatusOr<std::vector<double>> ClientMetric(History& history, const std::string& run_id, const std::string& name,
                                           int64_t round) {
  RIVULET_ASSIGN_OR_RETURN(
      const SqlAnswer answer,
      history.Ask(fmt::format("SELECT coalesce(value, CAST(right AS REAL) / total) FROM metric\n"
                              "WHERE run = (SELECT run FROM run WHERE run_id = ?) AND scope = {} AND name = ? "
                              "AND round = ?",
                              kScopeOfClients),
                  {run_id, name, round}));
  std::vector<double> values;
  for (const auto& row : answer.rows)
    if (const auto value = NumberOf(row[0])) values.push_back(*value);
  return values;
}

// With max(), SQLite takes bare columns from the row with the maximum.
StatusOr<DeclaredNumbers> LastDeclared(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(
      const SqlAnswer answer,
      history.Ask(fmt::format("SELECT c.client_id, m.name, m.value, max(m.round)\n"
                              "FROM metric m JOIN client c ON c.client = m.client\n"
                              "WHERE m.run = (SELECT run FROM run WHERE run_id = ?) AND m.scope = {} "
                              "AND m.name GLOB 'train/*'\nGROUP BY m.client, m.name",
                              kScopeOfClients),
                  {run_id}));
  DeclaredNumbers declared;
  for (const auto& row : answer.rows)
    if (const auto value = NumberOf(row[2])) declared[TextOf(row[0])][TextOf(row[1])] = *value;
  return declared;
}

StatusOr<TaskTimes> MeanTaskTimes(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(
      const SqlAnswer answer,
      history.Ask(fmt::format("WITH newest AS (SELECT a.attempt_key FROM run r JOIN attempt a ON a.run = r.run\n"
                              "  WHERE r.run_id = ? AND a.kind = {} ORDER BY a.attempt_key DESC LIMIT 100)\n"
                              "SELECT avg(wait_seconds), avg(train_seconds), avg(upload_seconds) FROM (\n"
                              "  SELECT t.wait_seconds, t.train_seconds, t.upload_seconds\n"
                              "  FROM newest n CROSS JOIN task t ON t.attempt_key = n.attempt_key LIMIT 20000)",
                              kTrain),
                  {run_id}));
  if (answer.rows.empty()) return TaskTimes();
  return TaskTimes{NumberOf(answer.rows[0][0]), NumberOf(answer.rows[0][1]), NumberOf(answer.rows[0][2])};
}

StatusOr<std::vector<TaskInTime>> NewestTasks(History& history, const std::string& run_id, int64_t most) {
  RIVULET_ASSIGN_OR_RETURN(
      const SqlAnswer answer,
      history.Ask(fmt::format("WITH newest AS (SELECT a.attempt_key, a.round, a.attempt, a.started, a.finished\n"
                              "  FROM run r JOIN attempt a ON a.run = r.run WHERE r.run_id = ? AND a.kind = {}\n"
                              "  ORDER BY a.attempt_key DESC LIMIT ?)\n"
                              "SELECT n.round, n.attempt, n.started, n.finished, c.client_id, t.status, t.error,\n"
                              "       t.wait_seconds, t.train_seconds, t.upload_seconds\n"
                              "FROM newest n CROSS JOIN task t ON t.attempt_key = n.attempt_key\n"
                              "CROSS JOIN client c ON c.client = t.client ORDER BY n.attempt_key DESC LIMIT 20000",
                              kTrain),
                  {run_id, most}));
  std::vector<TaskInTime> tasks;
  tasks.reserve(answer.rows.size());
  for (const auto& row : answer.rows) {
    tasks.push_back({.round = IntegerOf(row[0]),
                     .attempt = IntegerOf(row[1]),
                     .started_unix_ms = IntegerOf(row[2]),
                     .finished_unix_ms = IntegerOf(row[3]),
                     .client_id = TextOf(row[4]),
                     .status = StateOf(row[5]),
                     .error = TextOf(row[6]),
                     .wait_seconds = NumberOf(row[7]),
                     .train_seconds = NumberOf(row[8]),
                     .upload_seconds = NumberOf(row[9])});
  }
  return tasks;
}

StatusOr<std::vector<RoundTimes>> NewestRoundTimes(History& history, const std::string& run_id, int64_t most) {
  constexpr size_t kMostTasks = 100'000;
  RIVULET_ASSIGN_OR_RETURN(
      const SqlAnswer attempts,
      history.Ask(
          fmt::format("SELECT a.attempt_key, a.round, a.started, a.finished, a.train_seconds, a.aggregate_seconds,\n"
                      "       a.evaluate_seconds FROM run r JOIN attempt a ON a.run = r.run\n"
                      "WHERE r.run_id = ? AND a.kind = {} AND a.status = {} ORDER BY a.round DESC LIMIT ?",
                      kTrain, kCommitted),
          {run_id, most}));
  std::vector<RoundTimes> rounds;
  size_t tasks_read = 0;
  int64_t next_started = 0;
  for (const auto& row : attempts.rows) {
    const int64_t started = IntegerOf(row[2]), finished = IntegerOf(row[3]);
    RoundTimes round{.round = IntegerOf(row[1]),
                     .seconds = static_cast<double>(std::max<int64_t>(finished - started, 0)) / 1000,
                     .train = NumberOf(row[4]).value_or(0),
                     .aggregate = NumberOf(row[5]).value_or(0),
                     .evaluate = NumberOf(row[6]).value_or(0)};
    if (!rounds.empty()) {
      round.until_next = static_cast<double>(std::max<int64_t>(next_started - finished, 0)) / 1000;
    }
    next_started = started;
    RIVULET_ASSIGN_OR_RETURN(
        const SqlAnswer tasks,
        history.Ask(fmt::format("SELECT t.wait_seconds, t.train_seconds, t.upload_seconds, c.client_id\n"
                                "FROM task t JOIN client c ON c.client = t.client\n"
                                "WHERE t.attempt_key = ? AND t.status = {}",
                                kFolded),
                    {IntegerOf(row[0])}));
    double longest = -1;
    for (const auto& task : tasks.rows) {
      const double waited = NumberOf(task[0]).value_or(0), trained = NumberOf(task[1]).value_or(0),
                   uploaded = NumberOf(task[2]).value_or(0), all = waited + trained + uploaded;
      round.task_seconds.push_back(all);
      round.waited += waited;
      round.trained += trained;
      round.uploaded += uploaded;
      if (all > longest) round.slowest = TextOf(task[3]);
      longest = std::max(longest, all);
    }
    std::ranges::sort(round.task_seconds);
    tasks_read += round.task_seconds.size();
    rounds.push_back(std::move(round));
    if (tasks_read >= kMostTasks) break;
  }
  return rounds;
}

}  // namespace rivulet
