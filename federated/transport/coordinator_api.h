// The clients' interface of a coordinator. Implemented by the coordinator itself (simulations call it directly) and by
// a gRPC stub; callers see no difference. Requests and replies are structs: a new field changes only the struct and its
// message.
//
// A site polls for the clients that it serves: a client process is a site with one client, a worker thread of a
// simulation has many. A site's calls:
//
//   Poll ──→ tasks ──→ Fetch their inputs ──→ train (no open call meanwhile) ──→ Submit ──→ Poll …
//                                                └→ in one process: add to a partial sum, Poll while it is held,
//                                                   SubmitInPlace when a reply says `hand_over`
//
// Every call may be repeated after a lost connection. A task is leased to its site until its deadline, a fetch resumes
// at an offset, a submission reports its staged bytes, and an update sent twice counts once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/tasks/task.h"
#include "federated/tasks/task_failure.h"
#include "federated/tasks/task_record.h"

namespace rivulet {

class Model;     // federated/weights/model.h
struct Partial;  // federated/aggregation/aggregation.h

// The caller, as authenticated by the transport.
struct Caller {
  std::string name;                // client_id
  std::string certificate_serial;  // "" without TLS
  std::string run_id;              // "" at the first poll: the coordinator's current run
  uint64_t session = 0;            // random number per process, to detect two processes with one name
  // Role in the certificate. Without TLS the role is that of its calls.
  enum class Proven : uint8_t { kNothing, kClient, kAggregator } proven = Proven::kNothing;
  int64_t certificate_until = 0;  // end of validity, in seconds since 1970 UTC; 0 without TLS
};

// Version of the meaning of these structs. A client with another version is refused at its first poll.
inline constexpr int kProtocol = 1;

struct DatasetOffer {
  std::string name;                    // name to which the client's own configuration binds it: "train"
  int64_t examples = 0;                // 0 is refused: a client without examples cannot train
  std::vector<std::string> tags = {};  // from the client's own configuration: "icu"
};

struct Capabilities {
  std::string version;  // version of the client's software, in its own words, for operators
  int protocol = kProtocol;
  std::vector<DatasetOffer> datasets;
};

// A client of an aggregator, as reported by the aggregator.
struct ServedName {
  std::string name;
  std::vector<DatasetOffer> datasets;
};

// The clients that a site represents.
struct Serves {
  enum class Kind : uint8_t {
    kItself,  // the caller alone
    kAny,     // every client of the run: a simulation's workers
    kNames,   // clients of an aggregator (aggregator/aggregator.h): each is served by one aggregator, or calls the
              // coordinator
  };
  Kind kind = Kind::kItself;
  // For an aggregator: the clients that called it since its last poll with such a list. This poll counts as one by
  // each: it makes them known and present. A client's task that is missing in `working_on` is given to it again, as if
  // its process had restarted. At most kMostServed.
  std::vector<ServedName> names = {};
};
inline constexpr size_t kMostServed = 4096;  // names in one poll, which is one message

struct TaskProgress {
  TaskId task;
  // Added to this site's open partial sum, which is still to be submitted. For steps: this step is answered.
  bool held = false;
  int step = 0;  // in a task with steps: the last one that this site has started
};

struct PollRequest {
  Caller caller;
  Capabilities capabilities;  // without data sets for a site that serves others: each client reports its own
  Serves serves = {};
  // Tasks at this site. A task of this site that is not listed and not held is given to it again, because the process
  // must have restarted. A process needs to report a held task once. An aggregator lists all held tasks each time; one
  // that disappears is being trained again.
  std::vector<TaskProgress> working_on = {};
  int64_t want = 1;  // tasks that it can take now; 0: it only reports
  // Time to wait with the reply if there is no task, no cancellation, no hand-over and no end, once the caller knows
  // the awaited event. A server holds such polls and allows the next one at once. A coordinator in the same process
  // replies at once (AwaitWork).
  int64_t hold_ms = 0;
  bool told = false;
};

struct BlobId {
  // The meaning of `digest`. kBytes: SHA-256 of the bytes. kModel: the model in a safetensors file (model_digest). The
  // transfer of a model is checked by CRCs, and its parser compares the digest, so it is hashed only once. Files that
  // differ only in metadata have the same name.
  // kState: SHA-256 of a task's name; the blob is the client state that the task proposed, with its own checksum
  // (federated/states/state_blob.h).
  // kBase: a base, with the bytes of Base::ReadTravelling (federated/weights/base.h); the receiver compares its digest.
  enum class Form : uint8_t { kBytes = 0, kModel = 1, kState = 2, kBase = 3 } form = Form::kBytes;
  Digest digest;
  bool operator==(const BlobId&) const = default;
};

inline BlobId StateBlobOf(const TaskId& task) { return {BlobId::Form::kState, Sha256Of(task)}; }

struct NamedBlob {
  std::string name;  // "model"; "state" for a client with state, if the site serves other clients
  BlobId id;
};

struct Task {
  TaskId id;
  std::string run_id;
  std::string client_id;
  TaskKind kind = TaskKind::kTrain;
  int step = 0;              // in a task with steps; repeated in the submission
  int64_t base_version = 0;  // the model version to start from; its result is called round base_version + 1
  uint16_t ordinal = 0;      // of this client's lease at this base version
  uint64_t stream_key = 0;   // ClientKey(seed, client_id): this client's key, never the seed
  Digest plan;               // Fetch(BlobId{kBytes, plan}): the plan's bytes
  std::vector<NamedBlob> inputs;
  // The task whose proposal is this client's state (federated/states/state_store.h); "" if it has none yet.
  TaskId state_of = {};
  // Numbers from the server for this task, by the names in the plan (federated/numbers).
  Scalars numbers = {};
  // Tasks of one site with the same number belong to one attempt and are added to one partial sum.
  uint64_t gather = 0;
  // For a task through an aggregator: its update must be on disk before it is acknowledged
  // (server.checkpoint_reports).
  bool keep = false;

  // null: no input of that name.
  const NamedBlob* input(std::string_view name) const {
    for (const NamedBlob& blob : inputs) {
      if (blob.name == name) return &blob;
    }
    return nullptr;
  }
};

struct TaskOutcome {
  TaskId task;
  TaskEnd end = TaskEnd::kDropped;
  std::string reason;  // a sentence; "" if folded
  // For a folded task: its version is stored. Until then a crash may make the coordinator ask again, so the task's
  // results (its update, its proposed state) must be kept.
  bool durable = false;
};

// Status for a waiting client: "1 of 2 clients; round 1 starts when all have joined".
struct Awaited {
  std::string sentence;
};

// Request to submit one of a site's open partial sums now.
struct HandOver {
  uint64_t gather = 0;
  std::vector<TaskId> tasks;  // it must contain exactly these
};

// A client that may not be served by this aggregator;
// `reason` has the error code for the client's own calls.
struct RefusedName {
  std::string name;
  Status reason;
};

// Tasks, or the end of the run, or neither: then the site waits.
struct PollReply {
  std::vector<Task> tasks;          // at most `want`, besides those of `working_on` whose next step has started
  std::vector<TaskId> cancelled;    // of `working_on`: stop these, and discard their results
  std::vector<HandOver> hand_over;  // partial sums of held tasks
  // Outcomes of earlier tasks, which are in a durable version or certainly in none. A caller that serves itself gets
  // its last task in every poll. A caller that serves others with client state gets each of their tasks once.
  std::vector<TaskOutcome> outcomes;
  std::vector<RefusedName> refused_names;  // of Serves::names
  int64_t wait_ms = 0;                     // recommended time until the next poll
  Awaited awaited;
  // The run has ended for this caller; the reason: "the run has finished after round 3", "the run has failed: …".
  struct Over {
    bool failed = false;
    std::string sentence;
  };
  std::optional<Over> over;
  uint64_t epoch = 0;  // for AwaitWork
};

// Reads a blob in chunks; the transport chooses their sizes.
class ChunkReader {
 public:
  virtual ~ChunkReader() = default;
  virtual int64_t total_bytes() const = 0;
  // Returns the next chunk, valid until the next call; empty at the end. UNAVAILABLE: the connection was lost; Fetch
  // again at the offset reached. DATA_LOSS: a chunk arrived damaged; Fetch again at its offset.
  virtual StatusOr<std::span<const std::byte>> Next() = 0;
  // Owner of the chunks' memory, if chunks stay valid: they are unchanged while it is held, and a transport sends them
  // in place. Null: a chunk is valid until the next call.
  virtual std::shared_ptr<const void> holder() const { return nullptr; }
};

// Header of a submission, sent before its bytes.
struct Submission {
  enum class Kind : uint8_t {
    kUpdate = 0,  // an Update message (proto/federated/update.proto) of `task`
    // From a site with many clients: the records of tasks with one `gather` (federated/updates/task_records.h), then
    // their partial sum (federated/aggregation/partial.h). A refusal affects only its own tasks, which are offered
    // again.
    kPartial = 1,
    kState = 2,  // the client state that `task` proposes, from a site that shares no disk with the next one
    kStep = 3,   // the answer to a step of secure aggregation (federated/secure/protocol.h); in the sum's step, words
  };
  TaskId task;               // "" for a partial sum
  int step = 0;              // the task's step
  int64_t bytes = 0;         // of the data after the header
  TaskResult measured = {};  // columns that the site reports
  Kind kind = Kind::kUpdate;
  uint64_t gather = 0;  // for a partial sum: Task::gather of all its tasks
};

struct SubmitResult {
  enum class Kind {
    kAccepted,
    kDuplicate,  // this task's update is already aggregated, or is being aggregated
    kRefused,    // `reason` is one sentence
  };
  Kind kind = Kind::kAccepted;
  std::string reason;
};

// Calls: LiesIn? Resume (Write | WritePieces)* Finish, unless decided() is not null. SendSubmission
// (client/calls/send_submission.h) makes them.
class ChunkWriter {
 public:
  virtual ~ChunkWriter() = default;
  // The result of this task, if already known: then nothing is to be sent. Null: send the bytes.
  virtual const SubmitResult* decided() const { return nullptr; }
  // CRC-32C of the complete blocks staged for this task (federated/updates/block_crcs.h) by this process or another one
  // of this client. The caller resumes at the first block that differs from its own.
  virtual std::span<const uint32_t> staged_crcs() const = 0;
  // Sets the offset of the next bytes, a multiple of the block size and at most the staged size; staged bytes beyond it
  // are dropped.
  virtual Status Resume(int64_t offset) = 0;
  // Bytes of later Writes are in memory owned by `holder` and unchanged while it is held: they may be sent from there,
  // also after Write returns. Without this call, Write does not keep them.
  virtual void LiesIn(std::shared_ptr<const void> holder) { (void)holder; }
  // UNAVAILABLE: the connection was lost, or a newer connection of this client
  // has taken over the upload: ask again later. OUT_OF_RANGE: more bytes than
  // announced. RESOURCE_EXHAUSTED: staging is full; bytes of earlier calls stay.
  virtual Status Write(std::span<const std::byte> chunk) = 0;
  // Writes each piece in turn; implementations may write all at once.
  virtual Status WritePieces(std::span<const std::span<const std::byte>> pieces) {
    for (const std::span<const std::byte> piece : pieces) RIVULET_RETURN_IF_ERROR(Write(piece));
    return absl::OkStatus();
  }
  // Ends the submission; `identity` is BlockCrcs::Identity of all bytes. UNAVAILABLE: the connection was lost; Submit
  // again. DATA_LOSS: the staged bytes have another identity and were dropped; Submit again.
  virtual StatusOr<SubmitResult> Finish(const Digest& identity) = 0;
};

// Listener for events that change the reply to a poll.
class NewsListener {
 public:
  virtual ~NewsListener() = default;
  // For the site of this name; "": for all. Called with the coordinator's locks held: it must return at once, and must
  // not call the api.
  virtual void OnNews(const std::string& name) = 0;
};

class CoordinatorApi {
 public:
  virtual ~CoordinatorApi() = default;
  // Unary and fast. PERMISSION_DENIED, UNAVAILABLE. INVALID_ARGUMENT: a name that rows cannot hold, or no example in
  // the plan's data set. FAILED_PRECONDITION: another protocol version. NOT_FOUND: another run.
  virtual StatusOr<PollReply> Poll(const PollRequest& request) = 0;
  // NOT_FOUND: the blob does not exist, or no longer. OUT_OF_RANGE: offset beyond its end.
  virtual StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) = 0;
  // Starts a submission, or takes over one that is in progress. NOT_FOUND: no such task for this caller.
  // RESOURCE_EXHAUSTED: staging is full; try again later.
  virtual StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) = 0;
  // Returns when the caller's next reply may differ from the one with `epoch`, or after `timeout_ms`.
  virtual void AwaitWork(const Caller&, uint64_t epoch, int64_t timeout_ms) {
    (void)epoch;  // a remote coordinator cannot wake this thread
    std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
  }
  // For a transport that holds polls: replaces the listener; null: none. After it returns, the previous listener is not
  // called again.
  virtual void SetListener(NewsListener*) {}
  // Submits without message, hash and staging. `partial` contains exactly the updates of `records`; all of them are
  // aggregated, or none. UNIMPLEMENTED over a network. INVALID_ARGUMENT: its tasks are not the records'. NOT_FOUND: one
  // of them is not an open task of this caller. UNAVAILABLE: the run was stopped, and may be resumed.
  virtual StatusOr<SubmitResult> SubmitInPlace(const Caller&, Partial&&, std::span<const TaskRecord>) {
    return Unimplemented("a partial is handed over in one process only");
  }
  // Returns a task's model, shared instead of copied. UNIMPLEMENTED over a network. NOT_FOUND as in Fetch.
  virtual StatusOr<std::shared_ptr<const Model>> FetchInPlace(const Caller&, const BlobId&) {
    return Unimplemented("a model is shared in one process only");
  }
  // Ends the task as failed at once, instead of at its deadline. NOT_FOUND as in Submit.
  virtual Status Fail(const Caller& caller, const TaskFailure& failure) = 0;
};

}  // namespace rivulet
