// What a client may ask of a coordinator. Implemented by the coordinator itself (simulations call it directly) and by a
// gRPC stub; nothing above this interface knows which. Requests and replies are structs: a new field touches the
// struct, its message and nothing between.
//
// A client's life: Poll until the reply has a task; Fetch plan and model; train (no call is open meanwhile); Submit;
// Poll again. Every call may be repeated after a lost connection: a task is leased to its name until its deadline, a
// fetch goes on at an offset, a submission tells the offset already staged, and an update sent twice counts once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/tasks/task.h"

namespace rivulet {

// Who calls, as the transport authenticated it.
struct Caller {
  std::string name;                // client_id
  std::string certificate_serial;  // "" without TLS
  std::string run_id;              // "" at the first poll: the coordinator's current run
};

// What both ends mean by these structs. A client of another is told so at its first poll.
inline constexpr int kProtocol = 1;

struct DatasetOffer {
  std::string name;      // as the client's own configuration bound it: "train"
  int64_t examples = 0;  // 0 is refused: an empty client cannot train
};

struct Capabilities {
  std::string version;  // of the client's software, for whoever has to be told that the protocols differ
  int protocol = kProtocol;
  std::vector<DatasetOffer> datasets;
};

struct PollRequest {
  Caller caller;
  Capabilities capabilities;
};

struct BlobId {
  // What `digest` is of: the bytes (SHA-256), or the model in a safetensors file (model_digest). A model is hashed
  // once, as a model: its transfer is checked by CRCs, and whoever parses the file compares the digest. Two files that
  // differ in their metadata alone bear one name.
  enum class Form : uint8_t { kBytes = 0, kModel = 1 } form = Form::kBytes;
  Digest digest;
  bool operator==(const BlobId&) const = default;
};

struct NamedBlob {
  std::string name;  // "model"
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
};

// What a client asks to know while it waits: "1 of 2 clients; round 1 starts when all have joined".
struct Awaited {
  std::string sentence;
};

// Tasks, or that the run is over, or neither: then there is nothing to do but wait.
struct PollReply {
  std::vector<Task> tasks;            // at most one
  std::vector<TaskOutcome> outcomes;  // of this caller's earlier tasks
  int64_t wait_ms = 0;                // poll again after so long (a hint)
  Awaited awaited;
  // The run is over for this caller, and how: "the run has finished after round 3", "the run has failed: …".
  struct Over {
    bool failed = false;
    std::string sentence;
  };
  std::optional<Over> over;
};

// Reads a blob in chunks of the transport's choosing.
class ChunkReader {
 public:
  virtual ~ChunkReader() = default;
  virtual int64_t total_bytes() const = 0;
  // The next chunk, valid until the next call; empty at the end. UNAVAILABLE: the connection was lost; Fetch again at
  // the offset reached. DATA_LOSS: a chunk came damaged; Fetch again at its offset.
  virtual StatusOr<std::span<const std::byte>> Next() = 0;
};

// One task's update, announced before its bytes: an Update message (proto/federated/update.proto).
struct Submission {
  TaskId task;
  int step = 0;       // as the task has it
  int64_t bytes = 0;  // of the message that follows
  Digest digest;      // its SHA-256
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

// Calls: Write* Finish.
class ChunkWriter {
 public:
  virtual ~ChunkWriter() = default;
  virtual int64_t offset() const = 0;  // bytes already staged: go on from here
  // UNAVAILABLE also when a newer connection goes on with this submission. OUT_OF_RANGE: more than was announced.
  // RESOURCE_EXHAUSTED: staging is full; what was written before stays.
  virtual Status Write(std::span<const std::byte> chunk) = 0;
  // All bytes are written. UNAVAILABLE: the connection was lost; Submit again.
  virtual StatusOr<SubmitResult> Finish() = 0;
};

// A task that cannot be done, and why: one sentence for the row and the log.
struct TaskFailure {
  TaskId task;
  std::string reason;
};

class CoordinatorApi {
 public:
  virtual ~CoordinatorApi() = default;
  // Unary and quick. PERMISSION_DENIED, UNAVAILABLE. INVALID_ARGUMENT: a name that no row can hold, or without an
  // example in the plan's data set. FAILED_PRECONDITION: another protocol. NOT_FOUND: of another run.
  virtual StatusOr<PollReply> Poll(const PollRequest& request) = 0;
  // NOT_FOUND: no such blob, or no longer. OUT_OF_RANGE: offset beyond its end.
  virtual StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) = 0;
  // Begins a submission, or takes over one of the same bytes that was cut off. NOT_FOUND: no such task for this caller.
  // RESOURCE_EXHAUSTED: staging is full; try again later.
  virtual StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) = 0;
  // This task ends at once as failed, instead of at its deadline. NOT_FOUND as in Submit.
  virtual Status Fail(const Caller& caller, const TaskFailure& failure) = 0;
};

}  // namespace rivulet
