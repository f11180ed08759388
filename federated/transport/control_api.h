// The operators' interface of a running coordinator. Implemented by coordinator/control and by a gRPC stub
// (grpc_control.h). Its service is separate from that of clients (coordinator_api.h), and no caller may use both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// The caller, as authenticated by the transport: the id in a certificate of 'operator/ID', or "local" without TLS, when
// only this machine may call.
struct OperatorCaller {
  std::string name;
  std::string serial;  // of the certificate; "" without TLS
};

struct RunState {
  std::string run_id, name;
  std::string state;  // waiting, training, committing, measuring, finished, failed, stopped
  bool paused = false;
  bool stopping = false;  // stops after the open round
  std::string awaits;     // the awaited event and its deadline, in words; for an ended run, the reason
  int64_t round = 0;      // current round; for an ended run, the last
  int64_t rounds = 0, attempt = 0;
  int64_t selected = 0, folded = 0;  // of the open attempt
  int64_t clients = 0;               // number of members
};

struct ServedRuns {
  std::vector<RunState> runs;
  std::vector<std::string> warnings;  // problems of the coordinator itself, such as with its revocation list
};

struct ClientState {
  std::string client_id;
  std::string state;   // connected, away, banned, revoked, waiting (for an operator's approval)
  std::string detail;  // reason of a ban; request of a waiting client
  std::string via;     // its aggregator; "": none
  // Its current task; "" if it has none.
  std::string run_id;
  int64_t round = 0;
  std::string task;
  std::string doing;              // state of its lease: offered, taken, staging, held, …
  int64_t since_unix_ms = 0;      // start of that state
  int64_t last_seen_unix_ms = 0;  // 0: it has not called since the coordinator started
  std::string error;              // the last one
  int64_t error_unix_ms = 0;
  std::string serial;               // of its certificate; "" without TLS
  int64_t valid_until_unix_ms = 0;  // of its certificate; 0 without TLS
  std::string
      version;  // version of its software, as reported; "": it has not called yet, or calls an aggregator, which omits
};

struct ClientPage {
  std::vector<ClientState> clients;  // in byte order of their names
  bool more = false;                 // whether further clients follow
};
inline constexpr size_t kClientsOfAPage = 500;

// A row of the history's `audit`.
struct AuditEntry {
  std::string at, operator_id, serial, action, run_id, client_id, detail;
};
inline constexpr size_t kAuditEntriesTold = 500;  // the newest

struct OperatorCommand {
  std::string action;   // for a client: approve, ban, remove; for a run: pause, resume, stop, abort
  std::string subject;  // a client's name, or a run's id or name; "": the only run that has not ended
  std::string detail;   // a reason, for the audit log and, in a ban, for the client
};

inline constexpr int64_t kMaxSubmissionBytes =
    (int64_t{1} << 31) - 1;  // for plan and arrays: a plan is one protobuf message
struct RunSubmission {
  std::string scenario;     // TOML, as stored in a history; paths are on the coordinator's machine
  std::string plan = "";    // bytes of a plan that was built elsewhere; "": built from the scenario
  std::string arrays = "";  // with a plan, the contents of the file model.arrays; "": the coordinator has it
};

// Thread-safe. Every change is durably recorded before the reply.
class ControlApi {
 public:
  virtual ~ControlApi() = default;
  virtual StatusOr<ServedRuns> Runs(const OperatorCaller& caller) = 0;
  // Returns at most kClientsOfAPage clients with names after `after`.
  virtual StatusOr<ClientPage> Clients(const OperatorCaller& caller, const std::string& after) = 0;
  virtual StatusOr<std::vector<AuditEntry>> Audit(const OperatorCaller& caller) = 0;
  // Returns a sentence about the effect. NOT_FOUND: no such run. FAILED_PRECONDITION: the run has ended.
  // INVALID_ARGUMENT: no such action, or not a valid client name.
  virtual StatusOr<std::string> Command(const OperatorCaller& caller, const OperatorCommand& command) = 0;
  // Returns the id of the started run. FAILED_PRECONDITION: this coordinator serves a single run. Other errors are
  // those of the scenario or the plan.
  virtual StatusOr<std::string> StartRun(const OperatorCaller& caller, const RunSubmission& submission) = 0;
};

}  // namespace rivulet
