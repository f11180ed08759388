// The clients' interface of a coordinator. Implemented by the coordinator itself (simulations call it directly) and by
// a gRPC stub; nothing above this interface knows which. Requests and replies are structs: a new field touches the
// struct, its message and nothing between.
//
// A site polls for the clients it serves: a client process is a site of one client, a worker thread of a simulation one
// of many. A site's life:
//
//   Poll ──→ tasks ──→ Fetch their inputs ──→ train (no call is open meanwhile) ──→ Submit ──→ Poll …
//                                                └→ in one process: fold into a partial sum, Poll while it is held,
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

// Who calls, as the transport authenticated it.
struct Caller {
  std::string name;                // client_id
  std::string certificate_serial;  // "" without TLS
  std::string run_id;              // "" at the first poll: the coordinator's current run
  uint64_t session = 0;            // tells processes of one name apart, who may be two by mistake; a random number
  // What the certificate says it is. Without one it is whatever it acts as.
  enum class Proven : uint8_t { kNothing, kClient, kAggregator } proven = Proven::kNothing;
  int64_t certificate_until = 0;  // its last second, since 1970 UTC; 0 without TLS
};

// What both ends mean by these structs. A client of another is told so at its first poll.
inline constexpr int kProtocol = 1;

struct DatasetOffer {
  std::string name;                    // as the client's own configuration bound it: "train"
  int64_t examples = 0;                // 0 is refused: an empty client cannot train
  std::vector<std::string> tags = {};  // what the client's own configuration says of them: "icu"
};

struct Capabilities {
  std::string version;  // of the client's software, in its own words: operators see who is to be brought up to date
  int protocol = kProtocol;
  std::vector<DatasetOffer> datasets;
};

// A client that calls an aggregator, as the aggregator has heard of it.
struct ServedName {
  std::string name;
  std::vector<DatasetOffer> datasets;
};

// For whom a site speaks.
struct Serves {
  enum class Kind : uint8_t {
    kItself,  // the caller's own name
    kAny,     // every name of the run: a simulation's workers
    kNames,   // those that call it, as an aggregator (aggregator/aggregator.h): each is served through one aggregator,
              // or calls itself
  };
  Kind kind = Kind::kItself;
  // Of an aggregator: who has called it since it said so last. A poll is then that of each of them, who is known and
  // present by it as if it had called itself; and what it has of a task that is not in `working_on` it has again, as if
  // its own process had been started anew. At most kMostServed.
  std::vector<ServedName> names = {};
};
inline constexpr size_t kMostServed = 4096;  // names in one poll, which is one message

struct TaskProgress {
  TaskId task;
  // Folded into the partial that this site keeps open: only the hand-over is missing. Of steps: this one is answered.
  bool held = false;
  int step = 0;  // of a task in steps: the last one that this site has begun
};

struct PollRequest {
  Caller caller;
  Capabilities capabilities;  // of a site that serves others, without data sets: its names have their own
  Serves serves = {};
  // What is in this site's hands. A task of this site that is neither held nor named is given to it again: its process
  // was restarted. What is held needs to be said once; by an aggregator each time, and what it held and does not any
  // more it says so: that task is being done again.
  std::vector<TaskProgress> working_on = {};
  int64_t want = 1;  // tasks that it would take now; 0: it only tells
  // With no task to give, nothing to cancel or to hand over and the run not over, the answer may wait so long for one
  // of them, once the caller was told what it waits for. A network's server holds polls, and then lets the next one
  // come at once; a coordinator in this process answers at once (AwaitWork).
  int64_t hold_ms = 0;
  bool told = false;
};

struct BlobId {
  // What `digest` is of: the bytes (SHA-256), or the model in a safetensors file (model_digest). A model is hashed
  // once, as a model: its transfer is checked by CRCs, and whoever parses the file compares the digest. Two files that
  // differ in their metadata alone bear one name.
  // Or of a task's name: what that task proposed as its client's state, whose bytes have a checksum of their own
  // (federated/states/state_blob.h).
  // Or of a base, whose bytes are those of Base::Read (federated/weights/base.h); whoever has them all compares it.
  enum class Form : uint8_t { kBytes = 0, kModel = 1, kState = 2, kBase = 3 } form = Form::kBytes;
  Digest digest;
  bool operator==(const BlobId&) const = default;
};

inline BlobId StateBlobOf(const TaskId& task) { return {BlobId::Form::kState, Sha256Of(task)}; }

struct NamedBlob {
  std::string name;  // "model"; "state" of a client that keeps something, where a site asks for it that serves others
  BlobId id;
};

struct Task {
  TaskId id;
  std::string run_id;
  std::string client_id;
  TaskKind kind = TaskKind::kTrain;
  int step = 0;              // of a task in steps; goes back with what is submitted
  int64_t base_version = 0;  // the model version to start from; people call what comes of it round base_version + 1
  uint16_t ordinal = 0;      // of this client's lease at this base version
  uint64_t stream_key = 0;   // ClientKey(seed, client_id): the client's own, never the seed
  Digest plan;               // Fetch(BlobId{kBytes, plan}): the plan's bytes
  std::vector<NamedBlob> inputs;
  // The task whose proposal is this client's state (federated/states/state_store.h): "" where it has none yet.
  TaskId state_of = {};
  // What the server tells this client with this task, by name (federated/numbers): those that the plan names.
  Scalars numbers = {};
  // Tasks of one site that bear the same number are folded into one partial: those of one attempt.
  uint64_t gather = 0;
  // Of one that goes through an aggregator: whoever acknowledges its update has it on disk before
  // (server.checkpoint_reports).
  bool keep = false;

  // null: none of that name.
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
  std::string reason;  // a sentence; "" when folded
  // Of a folded one: the version it is in is written. Until then a crash may bring the task back, and what was made of
  // it (its update, its proposal of a state) must be kept.
  bool durable = false;
};

// What a client asks to know while it waits: "1 of 2 clients; round 1 starts when all have joined".
struct Awaited {
  std::string sentence;
};

// Which of a site's open partials is to be handed over now.
struct HandOver {
  uint64_t gather = 0;
  std::vector<TaskId> tasks;  // those that it must hold
};

// A client that is not to be served through this aggregator; `reason` has the code that it would be refused with
// itself.
struct RefusedName {
  std::string name;
  Status reason;
};

// Tasks, or that the run is over, or neither: then there is nothing to do but wait.
struct PollReply {
  std::vector<Task> tasks;          // at most `want`, beside those of `working_on` whose next step has begun
  std::vector<TaskId> cancelled;    // of `working_on`: stop, and forget what was made of them
  std::vector<HandOver> hand_over;  // of what is held
  // Of earlier tasks: the last one of a caller that serves itself, at every poll; of one that serves others, where its
  // names keep something from task to task, each once: that it is in no version, or in a durable one.
  std::vector<TaskOutcome> outcomes;
  std::vector<RefusedName> refused_names;  // of Serves::names
  int64_t wait_ms = 0;                     // poll again after so long (a hint)
  Awaited awaited;
  // The run is over for this caller, and how: "the run has finished after round 3", "the run has failed: …".
  struct Over {
    bool failed = false;
    std::string sentence;
  };
  std::optional<Over> over;
  uint64_t epoch = 0;  // for AwaitWork
};

// Reads a blob in chunks of the transport's choosing.
class ChunkReader {
 public:
  virtual ~ChunkReader() = default;
  virtual int64_t total_bytes() const = 0;
  // The next chunk, valid until the next call; empty at the end. UNAVAILABLE: the connection was lost; Fetch again at
  // the offset reached. DATA_LOSS: a chunk came damaged; Fetch again at its offset.
  virtual StatusOr<std::span<const std::byte>> Next() = 0;
  // What the chunks lie in, where they outlive their turn: they stay as they are for as long as somebody has it, and a
  // transport sends them from there. Null: a chunk goes with the next call.
  virtual std::shared_ptr<const void> holder() const { return nullptr; }
};

// What is announced before its bytes.
struct Submission {
  enum class Kind : uint8_t {
    kUpdate = 0,  // an Update message (proto/federated/update.proto) of `task`
    // By a site of many names: the records of a gathering's tasks (federated/updates/task_records.h), then the partial
    // that they are folded in (federated/aggregation/partial.h). Refused, it harms its own tasks alone: whatever this
    // site has is offered again.
    kPartial = 1,
    kState = 2,  // what `task` proposes as its client's state, by a site that shares no disk with the next one
    kStep = 3,  // the answer to a step of secure aggregation (federated/secure/protocol.h); of its sum's step the words
  };
  TaskId task;               // of a partial: ""
  int step = 0;              // as the task has it
  int64_t bytes = 0;         // of what follows
  TaskResult measured = {};  // columns that its site states
  Kind kind = Kind::kUpdate;
  uint64_t gather = 0;  // of a partial: Task::gather of all its tasks
};

struct SubmitResult {
  enum class Kind {
    kAccepted,
    kDuplicate,  // this task's update is folded, or being folded, already
    kRefused,    // `reason` is one sentence
  };
  Kind kind = Kind::kAccepted;
  std::string reason;
};

// Calls: LiesIn? Resume (Write | WritePieces)* Finish, unless it is decided. SendSubmission
// (client/calls/send_submission.h) makes them.
class ChunkWriter {
 public:
  virtual ~ChunkWriter() = default;
  // What became of this task, where that is known already: then there is nothing to send. Null: go on.
  virtual const SubmitResult* decided() const { return nullptr; }
  // What is staged of this task, in whole blocks by their CRC-32C (federated/updates/block_crcs.h), from this process
  // or another one of this name. The caller goes on where its own begin to differ.
  virtual std::span<const uint32_t> staged_crcs() const = 0;
  // Bytes from `offset` on are to come, and what is staged beyond it is dropped: a multiple of the block, at most what
  // is staged.
  virtual Status Resume(int64_t offset) = 0;
  // What is written from now on lies in `holder`, and stays as it is for as long as somebody has it: it may be sent
  // from there, also after Write. Otherwise Write is the last to read it.
  virtual void LiesIn(std::shared_ptr<const void> holder) { (void)holder; }
  // UNAVAILABLE also when a newer connection goes on with this task's upload, of the same process or of another one of
  // this name: ask again later, it is no failure. OUT_OF_RANGE: more than was announced. RESOURCE_EXHAUSTED: staging is
  // full; what was written before stays.
  virtual Status Write(std::span<const std::byte> chunk) = 0;
  // As Write of each in turn; for who can do that at once.
  virtual Status WritePieces(std::span<const std::span<const std::byte>> pieces) {
    for (const std::span<const std::byte> piece : pieces) RIVULET_RETURN_IF_ERROR(Write(piece));
    return absl::OkStatus();
  }
  // All bytes are written, and `identity` is BlockCrcs::Identity of them. UNAVAILABLE: the connection was lost; Submit
  // again. DATA_LOSS: the bytes that are staged have another identity; nothing of them is kept, Submit again.
  virtual StatusOr<SubmitResult> Finish(const Digest& identity) = 0;
};

// Hears when a poll may be answered otherwise than the last time.
class NewsListener {
 public:
  virtual ~NewsListener() = default;
  // For the site of this name; "": for all. Called under the coordinator's locks: it returns at once, and calls nothing
  // of the api.
  virtual void OnNews(const std::string& name) = 0;
};

class CoordinatorApi {
 public:
  virtual ~CoordinatorApi() = default;
  // Unary and quick. PERMISSION_DENIED, UNAVAILABLE. INVALID_ARGUMENT: a name that no row can hold, or without an
  // example in the plan's data set. FAILED_PRECONDITION: another protocol. NOT_FOUND: of another run.
  virtual StatusOr<PollReply> Poll(const PollRequest& request) = 0;
  // NOT_FOUND: no such blob, or no longer. OUT_OF_RANGE: offset beyond its end.
  virtual StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) = 0;
  // Begins a submission, or takes over the one that is on its way. NOT_FOUND: no such task for this caller.
  // RESOURCE_EXHAUSTED: staging is full; try again later.
  virtual StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) = 0;
  // Returns when something may have changed for the caller since `epoch` (of its last reply), or after `timeout_ms`.
  virtual void AwaitWork(const Caller&, uint64_t epoch, int64_t timeout_ms) {
    (void)epoch;  // a coordinator elsewhere cannot wake anybody here
    std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
  }
  // For a transport that holds polls. From now on this one hears of news, and no other; null: nobody. The one before is
  // not called once this has returned.
  virtual void SetListener(NewsListener*) {}
  // In one process: no message, no hash, no staging. `partial` holds the updates of `records` and no others; all of it
  // is folded, or nothing. UNIMPLEMENTED over a network. INVALID_ARGUMENT: its tasks are not the records'. NOT_FOUND:
  // one of them is no open task of this caller. UNAVAILABLE: the run was stopped, and may be resumed.
  virtual StatusOr<SubmitResult> SubmitInPlace(const Caller&, Partial&&, std::span<const TaskRecord>) {
    return Unimplemented("a partial is handed over in one process only");
  }
  // What a task starts from, shared and not copied. UNIMPLEMENTED over a network. NOT_FOUND as in Fetch.
  virtual StatusOr<std::shared_ptr<const Model>> FetchInPlace(const Caller&, const BlobId&) {
    return Unimplemented("a model is shared in one process only");
  }
  // This task ends at once as failed, instead of at its deadline. NOT_FOUND as in Submit.
  virtual Status Fail(const Caller& caller, const TaskFailure& failure) = 0;
};

}  // namespace rivulet
