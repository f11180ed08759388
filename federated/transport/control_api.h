// The operators' interface of a running coordinator. Implemented by coordinator/control and by a gRPC stub
// (grpc_control.h). Its service is separate from that of clients (coordinator_api.h), and no caller may use both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// Who asks, as the transport authenticated it: the id of a certificate of 'operator/ID', or "local" without TLS, where
// only this machine may ask.
struct OperatorCaller {
  std::string name;
  std::string serial;  // of the certificate; "" without TLS
};

struct RunState {
  std::string run_id, name;
  std::string state;  // waiting, training, committing, measuring, finished, failed, stopped
  bool paused = false;
  bool stopping = false;  // once the open round is made
  std::string awaits;     // what it waits for and until when, in words; of one that is over, why
  int64_t round = 0;      // that is worked on; of one that is over, the last
  int64_t rounds = 0, attempt = 0;
  int64_t selected = 0, folded = 0;  // of the open attempt
  int64_t clients = 0;               // members
};

struct ServedRuns {
  std::vector<RunState> runs;
  std::vector<std::string> warnings;  // what is wrong with the coordinator itself, such as its revocation list
};

struct ClientState {
  std::string client_id;
  std::string state;   // connected, away, banned, revoked, waiting (for an operator's word)
  std::string detail;  // why it was banned; what it asked for
  std::string via;     // the aggregator that it is reached through; "": none
  // What it has been given to do; "" where it has nothing.
  std::string run_id;
  int64_t round = 0;
  std::string task;
  std::string doing;              // offered, taken, staging, held, … : the lease's state
  int64_t since_unix_ms = 0;      // that it does so
  int64_t last_seen_unix_ms = 0;  // 0: not since the coordinator started
  std::string error;              // the last one
  int64_t error_unix_ms = 0;
  std::string serial;               // of its certificate; "" without TLS
  int64_t valid_until_unix_ms = 0;  // of it; 0 without TLS
  std::string
      version;  // of its software, as it says; "": it has not called yet, or calls an aggregator, which does not tell
};

struct ClientPage {
  std::vector<ClientState> clients;  // in byte order of their names
  bool more = false;                 // behind the last of them
};
inline constexpr size_t kClientsOfAPage = 500;

// A row of the history's `audit`.
struct AuditEntry {
  std::string at, operator_id, serial, action, run_id, client_id, detail;
};
inline constexpr size_t kAuditEntriesTold = 500;  // the newest

struct OperatorCommand {
  std::string action;   // approve, ban, remove: a client; pause, resume, stop, abort: a run
  std::string subject;  // a client's name; a run's id or name, "": the only one that is not over
  std::string detail;   // a reason, for the audit and, of a ban, for the client
};

inline constexpr int64_t kMaxSubmissionBytes =
    (int64_t{1} << 31) - 1;  // plan and arrays: a plan is one message of protobuf's
struct RunSubmission {
  std::string scenario;     // TOML, as a history stores it; paths are those of the coordinator's machine
  std::string plan = "";    // its bytes, of one that was built elsewhere; "": built from the scenario
  std::string arrays = "";  // with a plan, the bytes of the file that model.arrays names; "": that file is there
};

// Thread-safe. Everything that changes something is written down before it is answered.
class ControlApi {
 public:
  virtual ~ControlApi() = default;
  virtual StatusOr<ServedRuns> Runs(const OperatorCaller& caller) = 0;
  // At most kClientsOfAPage whose names are behind `after`.
  virtual StatusOr<ClientPage> Clients(const OperatorCaller& caller, const std::string& after) = 0;
  virtual StatusOr<std::vector<AuditEntry>> Audit(const OperatorCaller& caller) = 0;
  // A sentence that says what was done. NOT_FOUND: no such run. FAILED_PRECONDITION: it is over. INVALID_ARGUMENT: no
  // such action, or a name that no client can have.
  virtual StatusOr<std::string> Command(const OperatorCaller& caller, const OperatorCommand& command) = 0;
  // The id of the run that has begun. FAILED_PRECONDITION: this coordinator serves one run, and takes no other.
  // Otherwise what is wrong with the scenario or the plan.
  virtual StatusOr<std::string> StartRun(const OperatorCaller& caller, const RunSubmission& submission) = 0;
};

}  // namespace rivulet
