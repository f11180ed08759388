#include "coordinator/history/questions.h"

#include "coordinator/history/tables.h"

namespace rivulet {
namespace {

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

}  // namespace

// By the tables, since the views write an id and a digest of every task that is looked at. Of the row that has the
// maximum are the other columns too: SQLite says so of a single max().
StatusOr<std::vector<ClientFailuresRow>> ClientFailures(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(
      const SqlAnswer answer,
      history.Ask(
          fmt::format("SELECT c.client_id, count(*) AS tasks, max(a.round), t.status, t.error\n"
                      "FROM run r JOIN attempt a ON a.run = r.run JOIN task t ON t.attempt_key = "
                      "a.attempt_key JOIN client c ON c.client = t.client\n"
                      "WHERE r.run_id = ? AND t.status <> {} GROUP BY t.client ORDER BY tasks DESC, c.client_id",
                      kFolded),
          {run_id}));
  std::vector<ClientFailuresRow> rows;
  for (const auto& row : answer.rows) {
    rows.push_back({TextOf(row[0]), IntegerOf(row[1]), IntegerOf(row[2]),
                    std::string(kTaskStates.at(static_cast<size_t>(IntegerOf(row[3])))), TextOf(row[4])});
  }
  return rows;
}

StatusOr<TaskTimes> MeanTaskTimes(History& history, const std::string& run_id) {
  RIVULET_ASSIGN_OR_RETURN(
      const SqlAnswer answer,
      history.Ask(
          fmt::format("SELECT avg(t.wait_seconds), avg(t.train_seconds), avg(t.upload_seconds)\n"
                      "FROM run r JOIN attempt a ON a.run = r.run JOIN task t ON t.attempt_key = a.attempt_key\n"
                      "WHERE r.run_id = ? AND a.kind = {}",
                      kTrain),
          {run_id}));
  if (answer.rows.empty()) return TaskTimes();
  return TaskTimes{NumberOf(answer.rows[0][0]), NumberOf(answer.rows[0][1]), NumberOf(answer.rows[0][2])};
}

}  // namespace rivulet
