// The tables of a history, version 6. Run, client and task have integer keys; digests are 32 bytes, times milliseconds
// since 1970 UTC, states small numbers. No value is stored twice. The views (schema.cc) give them the names and texts
// that people read (rows.h, docs/reference/history.md). Only coordinator/history includes this.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "coordinator/history/columns.h"
#include "coordinator/history/round_result.h"
#include "engine/base/sha256.h"
#include "federated/tasks/task_result.h"

namespace rivulet {

// A state is stored as its index in one of these arrays. New ones are appended.
inline constexpr std::array<std::string_view, 4> kRunStates = {"running", "finished", "interrupted", "failed"};
inline constexpr std::array<std::string_view, 3> kAttemptStates = {"committed", "abandoned", "failed"};
inline constexpr std::array<std::string_view, 4> kTaskStates = {"folded", "refused", "dropped", "failed"};
inline constexpr std::array<std::string_view, 2> kTaskKinds = {"train", "evaluate"};
inline constexpr std::array<std::string_view, 3> kScopes = {"central", "federated", "client"};
inline constexpr std::array<std::string_view, 3> kLevels = {"info", "warning", "error"};
inline constexpr std::array<std::string_view, 4> kClientStates = {"active", "banned", "approved", "removed"};
inline constexpr std::array<std::string_view, 8> kAuditActions = {"approve", "ban",    "remove", "submit",
                                                                  "pause",   "resume", "stop",   "abort"};
// A task's id names its attempt by the letter of its kind: RUN-r3-a1-CLIENT-0.
inline constexpr std::array<std::string_view, 2> kTaskLetters = {"r", "e"};
inline constexpr int64_t kCommitted = 0, kFolded = 0, kTrain = 0;

// A metric that rows of rounds and tasks already contain.
inline constexpr std::string_view kTrainLoss = "train/loss";

// Keys are nullopt until SQLite assigns them.
struct StoredRun {
  std::optional<int64_t> run;
  std::string run_id, name;
  int64_t status = 0;
  std::string reason, config;
  Digest plan_digest;
  int64_t seed = 0;  // two's complement of an unsigned number
  std::string version;
  std::string models;  // the folder of its models, relative to the database's
  int64_t created = 0;
  std::optional<int64_t> started, finished;
};
struct StoredKey {
  int64_t run = 0;
  std::string key, value;
};
struct StoredTag {
  int64_t run = 0;
  std::string tag;
};
struct StoredNote {
  int64_t run = 0, at = 0;
  std::string text;
};
// A name without times is only an aggregator of others, unless an operator has decided on it.
struct StoredClient {
  std::optional<int64_t> client;
  std::string client_id, fingerprint;
  int64_t status = 0;
  std::optional<int64_t> first_seen, last_seen;
};
// A client in a run, with totals of its tasks: reliability is a row and needs no scan of tasks.
struct StoredMembership {
  int64_t run = 0, client = 0, from_round = 1, from_attempt = 1;
  int64_t tasks = 0, folded = 0, refused = 0, dropped = 0, failed = 0;
  int64_t examples = 0;      // of folded tasks
  double train_seconds = 0;  // over the `timed` tasks that reported it
  int64_t timed = 0;
};
// An attempt at a version, or an evaluation cohort. Its sums are stored beside its tasks, whose rows may be removed
// later.
struct StoredAttempt : RoundResult {
  std::optional<int64_t> attempt_key;
  int64_t run = 0, round = 0, attempt = 1, kind = 0, status = 0;
  std::string reason;
  int64_t started = 0, finished = 0;
};
// A client's task. Its weight is NULL if it is folded and its examples are its weight.
struct StoredTask : TaskResult {
  std::optional<int64_t> task;
  int64_t attempt_key = 0, client = 0;
  std::optional<int64_t> ordinal;  // NULL if task_id has the id
  int64_t status = 0, base_round = 0;
  std::optional<int64_t> into_round;  // NULL: its attempt's, if it is folded
  std::optional<int64_t> parent;
  std::string error;
  std::string task_id;  // NULL if it follows from the row
};
struct StoredMetric {
  int64_t run = 0, round = 0, scope = 0;
  std::optional<int64_t> client;
  std::string name;
  std::optional<double> value;          // NULL if right and total determine it
  std::optional<int64_t> right, total;  // of a rate
};
struct StoredModel {
  int64_t run = 0, round = 0;
  Digest digest;
  std::string file;  // in the run's folder; a full path if it contains '/'
  int64_t bytes = 0, parameters = 0;
};
struct StoredBlob {
  int64_t run = 0, round = 0;
  std::string name;
  SqlBytes bytes;
};
struct StoredEvent {
  std::optional<int64_t> event, run, round;
  int64_t at = 0, level = 0;
  std::string source, message;
};
// An operator's action. Names are stored as text, so the row remains when a run is removed.
struct StoredAudit {
  std::optional<int64_t> audit;
  int64_t at = 0, action = 0;
  std::string operator_id, serial, run_id, client_id, detail;
};

// A label of a served name and its target: the newest row of a name and label counts (coordinator/history/pointers.h).
// It outlives its run's rows, so it has the run's id and no key.
struct StoredPointer {
  std::optional<int64_t> pointer;
  std::string name, label, run_id;
  int64_t round = 0;
  Digest digest, plan_digest;
  int64_t version = 0;  // the name's own counter
  std::optional<double> share;
  int64_t at = 0;
  std::string author, note;
  int64_t rolled_back = 0;  // 1: a step back; it repeats the label's row before its last target
};

// A version's record (federated/records/version_record.h), as bytes, which third parties check.
struct StoredRecord {
  int64_t run = 0, round = 0;
  Digest digest;
  std::string record, certificate;
  SqlBytes signature;
};

// Columns of a result that the first tables had, and those that later versions have appended.
inline constexpr auto kOfFirst = [](size_t, int history) { return history > 0 && history <= kFirstHistory; };
inline constexpr auto kOfLater = [](size_t, int history) { return history > kFirstHistory; };

template <>
struct SqlTable<StoredRun> {
  static constexpr char kName[] = "run";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run", &StoredRun::run, "INTEGER PRIMARY KEY"},
      SqlColumn{"run_id", &StoredRun::run_id, "TEXT NOT NULL UNIQUE"},
      SqlColumn{"name", &StoredRun::name, "TEXT NOT NULL"}, SqlColumn{"status", &StoredRun::status, "INTEGER NOT NULL"},
      SqlColumn{"reason", &StoredRun::reason, "TEXT"}, SqlColumn{"config", &StoredRun::config, "TEXT NOT NULL"},
      SqlColumn{"plan_digest", &StoredRun::plan_digest, "BLOB NOT NULL"},
      SqlColumn{"seed", &StoredRun::seed, "INTEGER NOT NULL"},
      SqlColumn{"version", &StoredRun::version, "TEXT NOT NULL"},
      SqlColumn{"models", &StoredRun::models, "TEXT NOT NULL"},
      SqlColumn{"created", &StoredRun::created, "INTEGER NOT NULL"},
      SqlColumn{"started", &StoredRun::started, "INTEGER"}, SqlColumn{"finished", &StoredRun::finished, "INTEGER"});
  static constexpr char kRest[] = "";
  static constexpr bool kWithoutRowid = false;
};
template <>
struct SqlTable<StoredKey> {
  static constexpr char kName[] = "run_key";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run", &StoredKey::run, "INTEGER NOT NULL REFERENCES run (run)"},
      SqlColumn{"key", &StoredKey::key, "TEXT NOT NULL"}, SqlColumn{"value", &StoredKey::value, "TEXT NOT NULL"});
  static constexpr char kRest[] = "PRIMARY KEY (run, key)";
  static constexpr bool kWithoutRowid = true;
};
template <>
struct SqlTable<StoredTag> {
  static constexpr char kName[] = "tag";
  static constexpr auto kColumns =
      std::tuple(SqlColumn{"run", &StoredTag::run, "INTEGER NOT NULL REFERENCES run (run)"},
                 SqlColumn{"tag", &StoredTag::tag, "TEXT NOT NULL"});
  static constexpr char kRest[] = "PRIMARY KEY (run, tag)";
  static constexpr bool kWithoutRowid = true;
};
template <>
struct SqlTable<StoredNote> {
  static constexpr char kName[] = "note";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run", &StoredNote::run, "INTEGER NOT NULL REFERENCES run (run)"},
      SqlColumn{"at", &StoredNote::at, "INTEGER NOT NULL"}, SqlColumn{"text", &StoredNote::text, "TEXT NOT NULL"});
  static constexpr char kRest[] = "";
  static constexpr bool kWithoutRowid = false;
};
template <>
struct SqlTable<StoredClient> {
  static constexpr char kName[] = "client";
  static constexpr auto kColumns = std::tuple(SqlColumn{"client", &StoredClient::client, "INTEGER PRIMARY KEY"},
                                              SqlColumn{"client_id", &StoredClient::client_id, "TEXT NOT NULL UNIQUE"},
                                              SqlColumn{"fingerprint", &StoredClient::fingerprint, "TEXT"},
                                              SqlColumn{"status", &StoredClient::status, "INTEGER NOT NULL"},
                                              SqlColumn{"first_seen", &StoredClient::first_seen, "INTEGER"},
                                              SqlColumn{"last_seen", &StoredClient::last_seen, "INTEGER"});
  static constexpr char kRest[] = "";
  static constexpr bool kWithoutRowid = false;
};
template <>
struct SqlTable<StoredMembership> {
  static constexpr char kName[] = "membership";
  static constexpr auto kColumns =
      std::tuple(SqlColumn{"run", &StoredMembership::run, "INTEGER NOT NULL REFERENCES run (run)"},
                 SqlColumn{"client", &StoredMembership::client, "INTEGER NOT NULL REFERENCES client (client)"},
                 SqlColumn{"from_round", &StoredMembership::from_round, "INTEGER NOT NULL"},
                 SqlColumn{"from_attempt", &StoredMembership::from_attempt, "INTEGER NOT NULL"},
                 SqlColumn{"tasks", &StoredMembership::tasks, "INTEGER NOT NULL"},
                 SqlColumn{"folded", &StoredMembership::folded, "INTEGER NOT NULL"},
                 SqlColumn{"refused", &StoredMembership::refused, "INTEGER NOT NULL"},
                 SqlColumn{"dropped", &StoredMembership::dropped, "INTEGER NOT NULL"},
                 SqlColumn{"failed", &StoredMembership::failed, "INTEGER NOT NULL"},
                 SqlColumn{"examples", &StoredMembership::examples, "INTEGER NOT NULL"},
                 SqlColumn{"train_seconds", &StoredMembership::train_seconds, "REAL NOT NULL"},
                 SqlColumn{"timed", &StoredMembership::timed, "INTEGER NOT NULL"});
  static constexpr char kRest[] = "PRIMARY KEY (run, client)";
  static constexpr bool kWithoutRowid = true;
};
template <>
struct SqlTable<StoredAttempt> {
  static constexpr char kName[] = "attempt";
  static constexpr auto kColumns =
      std::tuple_cat(std::tuple(SqlColumn{"attempt_key", &StoredAttempt::attempt_key, "INTEGER PRIMARY KEY"},
                                SqlColumn{"run", &StoredAttempt::run, "INTEGER NOT NULL REFERENCES run (run)"},
                                SqlColumn{"round", &StoredAttempt::round, "INTEGER NOT NULL CHECK (round >= 1)"},
                                SqlColumn{"attempt", &StoredAttempt::attempt, "INTEGER NOT NULL CHECK (attempt >= 1)"},
                                SqlColumn{"kind", &StoredAttempt::kind, "INTEGER NOT NULL"},
                                SqlColumn{"status", &StoredAttempt::status, "INTEGER NOT NULL"},
                                SqlColumn{"reason", &StoredAttempt::reason, "TEXT"},
                                SqlColumn{"started", &StoredAttempt::started, "INTEGER NOT NULL"},
                                SqlColumn{"finished", &StoredAttempt::finished, "INTEGER NOT NULL"}),
                     SqlColumnsOf<kRoundColumns, kOfFirst>(), SqlColumnsOf<kRoundColumns, kOfLater>());
  static constexpr char kRest[] = "UNIQUE (run, round, attempt, kind)";
  static constexpr bool kWithoutRowid = false;
};
template <>
struct SqlTable<StoredTask> {
  static constexpr char kName[] = "task";
  static constexpr auto kColumns = std::tuple_cat(
      std::tuple(
          SqlColumn{"task", &StoredTask::task, "INTEGER PRIMARY KEY"},
          SqlColumn{"attempt_key", &StoredTask::attempt_key, "INTEGER NOT NULL REFERENCES attempt (attempt_key)"},
          SqlColumn{"client", &StoredTask::client, "INTEGER NOT NULL REFERENCES client (client)"},
          SqlColumn{"ordinal", &StoredTask::ordinal, "INTEGER"},
          SqlColumn{"status", &StoredTask::status, "INTEGER NOT NULL"},
          SqlColumn{"base_round", &StoredTask::base_round, "INTEGER NOT NULL"},
          SqlColumn{"into_round", &StoredTask::into_round, "INTEGER"},
          SqlColumn{"parent", &StoredTask::parent, "INTEGER REFERENCES client (client)"}),
      SqlColumnsOf<kTaskColumns, kOfFirst>(),
      std::tuple(SqlColumn{"error", &StoredTask::error, "TEXT"}, SqlColumn{"task_id", &StoredTask::task_id, "TEXT"}),
      SqlColumnsOf<kTaskColumns, kOfLater>());
  static constexpr char kRest[] = "UNIQUE (attempt_key, client, ordinal)";
  static constexpr bool kWithoutRowid = false;
};
template <>
struct SqlTable<StoredMetric> {
  static constexpr char kName[] = "metric";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run", &StoredMetric::run, "INTEGER NOT NULL REFERENCES run (run)"},
      SqlColumn{"round", &StoredMetric::round, "INTEGER NOT NULL"},
      SqlColumn{"scope", &StoredMetric::scope, "INTEGER NOT NULL"},
      SqlColumn{"client", &StoredMetric::client, "INTEGER REFERENCES client (client)"},
      SqlColumn{"name", &StoredMetric::name, "TEXT NOT NULL"}, SqlColumn{"value", &StoredMetric::value, "REAL"},
      SqlColumn{"right", &StoredMetric::right, "INTEGER"}, SqlColumn{"total", &StoredMetric::total, "INTEGER"});
  static constexpr char kRest[] = "CHECK ((scope = 2) = (client IS NOT NULL))";
  static constexpr bool kWithoutRowid = false;
};
template <>
struct SqlTable<StoredModel> {
  static constexpr char kName[] = "model";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run", &StoredModel::run, "INTEGER NOT NULL REFERENCES run (run)"},
      SqlColumn{"round", &StoredModel::round, "INTEGER NOT NULL CHECK (round >= 0)"},
      SqlColumn{"digest", &StoredModel::digest, "BLOB NOT NULL"}, SqlColumn{"file", &StoredModel::file, "TEXT"},
      SqlColumn{"bytes", &StoredModel::bytes, "INTEGER NOT NULL"},
      SqlColumn{"parameters", &StoredModel::parameters, "INTEGER NOT NULL"});
  static constexpr char kRest[] = "PRIMARY KEY (run, round)";
  static constexpr bool kWithoutRowid = true;
};
template <>
struct SqlTable<StoredBlob> {
  static constexpr char kName[] = "blob";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"run", &StoredBlob::run, "INTEGER NOT NULL REFERENCES run (run)"},
      SqlColumn{"round", &StoredBlob::round, "INTEGER NOT NULL CHECK (round >= 0)"},
      SqlColumn{"name", &StoredBlob::name, "TEXT NOT NULL"}, SqlColumn{"bytes", &StoredBlob::bytes, "BLOB NOT NULL"});
  static constexpr char kRest[] = "UNIQUE (run, name, round)";
  static constexpr bool kWithoutRowid = false;
};
template <>
struct SqlTable<StoredEvent> {
  static constexpr char kName[] = "event";
  static constexpr auto kColumns = std::tuple(SqlColumn{"event", &StoredEvent::event, "INTEGER PRIMARY KEY"},
                                              SqlColumn{"run", &StoredEvent::run, "INTEGER REFERENCES run (run)"},
                                              SqlColumn{"round", &StoredEvent::round, "INTEGER"},
                                              SqlColumn{"at", &StoredEvent::at, "INTEGER NOT NULL"},
                                              SqlColumn{"level", &StoredEvent::level, "INTEGER NOT NULL"},
                                              SqlColumn{"source", &StoredEvent::source, "TEXT NOT NULL"},
                                              SqlColumn{"message", &StoredEvent::message, "TEXT NOT NULL"});
  static constexpr char kRest[] = "";
  static constexpr bool kWithoutRowid = false;
};
template <>
struct SqlTable<StoredAudit> {
  static constexpr char kName[] = "audit_entry";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"audit", &StoredAudit::audit, "INTEGER PRIMARY KEY"},
      SqlColumn{"at", &StoredAudit::at, "INTEGER NOT NULL"},
      SqlColumn{"action", &StoredAudit::action, "INTEGER NOT NULL"},
      SqlColumn{"operator_id", &StoredAudit::operator_id, "TEXT NOT NULL"},
      SqlColumn{"serial", &StoredAudit::serial, "TEXT"}, SqlColumn{"run_id", &StoredAudit::run_id, "TEXT"},
      SqlColumn{"client_id", &StoredAudit::client_id, "TEXT"}, SqlColumn{"detail", &StoredAudit::detail, "TEXT"});
  static constexpr char kRest[] = "";
  static constexpr bool kWithoutRowid = false;
};
template <>
struct SqlTable<StoredPointer> {
  static constexpr char kName[] = "pointer";
  static constexpr int64_t kSince = 5;  // the version of the history that added it
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"pointer", &StoredPointer::pointer, "INTEGER PRIMARY KEY"},
      SqlColumn{"name", &StoredPointer::name, "TEXT NOT NULL"},
      SqlColumn{"label", &StoredPointer::label, "TEXT NOT NULL"},
      SqlColumn{"run_id", &StoredPointer::run_id, "TEXT NOT NULL"},
      SqlColumn{"round", &StoredPointer::round, "INTEGER NOT NULL CHECK (round >= 0)"},
      SqlColumn{"digest", &StoredPointer::digest, "BLOB NOT NULL"},
      SqlColumn{"plan_digest", &StoredPointer::plan_digest, "BLOB NOT NULL"},
      SqlColumn{"version", &StoredPointer::version, "INTEGER NOT NULL CHECK (version >= 1)"},
      SqlColumn{"share", &StoredPointer::share, "REAL"}, SqlColumn{"at", &StoredPointer::at, "INTEGER NOT NULL"},
      SqlColumn{"author", &StoredPointer::author, "TEXT"}, SqlColumn{"note", &StoredPointer::note, "TEXT"},
      SqlColumn{"rolled_back", &StoredPointer::rolled_back, "INTEGER NOT NULL"});
  static constexpr char kRest[] = "";
  static constexpr bool kWithoutRowid = false;
};
template <>
struct SqlTable<StoredRecord> {
  static constexpr char kName[] = "record";
  static constexpr int64_t kSince = 6;
  static constexpr auto kColumns =
      std::tuple(SqlColumn{"run", &StoredRecord::run, "INTEGER NOT NULL REFERENCES run (run)"},
                 SqlColumn{"round", &StoredRecord::round, "INTEGER NOT NULL CHECK (round >= 0)"},
                 SqlColumn{"digest", &StoredRecord::digest, "BLOB NOT NULL"},
                 SqlColumn{"record", &StoredRecord::record, "TEXT NOT NULL"},
                 SqlColumn{"signature", &StoredRecord::signature, "BLOB NOT NULL"},
                 SqlColumn{"certificate", &StoredRecord::certificate, "TEXT"});
  static constexpr char kRest[] = "PRIMARY KEY (run, round)";
  static constexpr bool kWithoutRowid = true;
};

}  // namespace rivulet
