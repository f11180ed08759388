// Base of uploads and downloads at a server: their caller,
// place in the queue, thread and end. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/executor.h"
#include "engine/base/status.h"
#include "federated/transport/callers.h"
#include "federated/transport/coordinator_api.h"
#include "federated/transport/messages.h"
#include "proto/rpc/coordinator.grpc.pb.h"
#include "rpc/grpc_options.h"
#include "rpc/stream_guard.h"
#include "rpc/transfer_heap.h"
#include "rpc/transfer_places.h"

namespace rivulet {

// State shared by a service's streams. Jobs that call the api, and so touch disks and other callers' sums, run on
// separate threads: gRPC's must not block. Polls have separate threads, so that uploads never delay them.
struct ServedStreams {
  CoordinatorApi& api;
  const Callers callers;
  const bool admit_sites, admit_aggregators;
  StreamGuard guard;
  const TransferLimits limits;
  TransferPlaces short_places, long_places;
  std::unique_ptr<Executor> calls, streams;
  HeapTrim trim = {};
  // For TransferTotals.
  struct Counts {
    std::atomic<int64_t> up = 0, up_wire = 0, down = 0, down_wire = 0;
  } counts = {};
};

// One stream of either direction. gRPC's reactors call back on gRPC's threads, concurrently
// if operations overlap, may report an end during an operation, and must delete themselves.
// Most errors with them are two operations at once, or an access after the last. So exactly
// one operation is pending at any time, and `doing_` names it: a callback only marks its end
// and starts a job; a job ends by starting the next operation, and touches nothing after
// that. A cancellation appears as the failure of the pending operation, or of the next one.
//
// The one exception is a transfer of bytes (kMoving): an upload may have a read and one job pending, a download a write
// and one job, which exchange messages through a DoubleBuffer. Whichever reaches the stream's end gives the other
// nothing more.
template <typename Reactor>
class ServerStream : public Reactor {
 public:
  // gRPC's last call. The api's writer or reader is destroyed on the executor, because releasing memory or files takes
  // time. Reactors require this single `delete this`.
  void OnDone() final {
    if (id_.ok()) shared_.guard.Leave(*id_);
    shared_.streams->Run([this] {
      const auto id = id_;
      const int64_t moved = moved_;
      ServedStreams& shared = shared_;
      delete this;
      if (id.ok()) {  // its places are free for others
        shared.short_places.Leave(*id);
        shared.long_places.Leave(*id);
      }
      shared.trim.Moved(moved);
    });
  }
  void OnCancel() final {
    if (!id_.ok()) return;
    shared_.short_places.Hurry(*id_);
    shared_.long_places.Hurry(*id_);
  }

 protected:
  enum class Doing : uint8_t { kStarting, kReading, kWriting, kWorking, kMoving, kFinishing };

  ServerStream(ServedStreams& shared, grpc::CallbackServerContext* context)
      : shared_(shared),
        context_(context),
        id_(shared.guard.Enter(context->peer(), [context] { context->TryCancel(); })) {}

  ServedStreams& shared() { return shared_; }
  Status entered() const { return id_.status(); }
  const Caller& caller() const { return caller_; }
  // Sets the stream's caller from a message.
  Status Name(const rpc::CallerProto& message, const char* what) {
    caller_ = FromMessage(message);
    RIVULET_RETURN_IF_ERROR(IdentifyAgain());
    return shared_.guard.Name(*id_, caller_.name, what);
  }
  // Checks the caller again, because a stream may be open for long.
  Status IdentifyAgain() { return shared_.callers.Identify(*context_, &caller_); }

  // Each job or callback must end with one of these.
  void Work(std::function<void()> job) {
    Become(Doing::kWorking);
    shared_.streams->Run(std::move(job));
  }
  bool IsShort(int64_t bytes) const { return bytes <= shared_.limits.short_bytes; }
  // Runs `job` when this stream's turn to move so many bytes has come; until then it neither requests nor sends any.
  // Skipped if the peer is gone or was refused meanwhile. A transfer that proves long may queue a second time.
  void WorkInTurn(int64_t bytes, std::function<void()> job) {
    Become(Doing::kWorking);
    shared_.short_places.Leave(*id_);
    TransferPlaces* const places = IsShort(bytes) ? &shared_.short_places : &shared_.long_places;
    places_ = places;
    places->Enter(*id_, [this, job = std::move(job)] {
      shared_.streams->Run([this, job] {
        const Status status = context_->IsCancelled() ? Unavailable("the peer has gone") : IdentifyAgain();
        status.ok() ? job() : End(status);
      });
    });
  }
  bool KeepsUp() { return places_.load()->KeepsUp(*id_); }
  template <typename Message>
  void Read(Message* message) {
    Become(Doing::kReading);
    Wait();
    this->StartRead(message);
  }
  template <typename Message>
  void Write(const Message* message) {
    Become(Doing::kWriting);
    Wait();
    this->StartWrite(message);
  }
  template <typename Message>
  void WriteLast(const Message* message) {
    Become(Doing::kFinishing);
    Wait();
    shared_.guard.End(*id_);
    this->StartWriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK);
  }
  // Messages move from now on until End or WriteLast. The caller must bracket waits for the peer.
  void Move() { Become(Doing::kMoving); }
  void Run(std::function<void()> job) { shared_.streams->Run(std::move(job)); }
  void End(const Status& status) {
    Become(Doing::kFinishing);
    if (id_.ok()) shared_.guard.End(*id_);
    this->Finish(ToGrpc(status));
  }

  // The first call in a callback; `bytes` were received or sent.
  void Ended(Doing doing, size_t bytes) {
    RIVULET_CHECK(doing_ == doing, "a stream that does {} hears the end of {}", static_cast<int>(doing_.load()),
                  static_cast<int>(doing));
    Moved(bytes);
  }
  // Brackets around every wait for the peer.
  void Wait() {
    shared_.guard.Waiting(*id_);
    places_.load()->Waiting(*id_);
  }
  void Moved(size_t bytes) {
    shared_.guard.Moved(*id_);
    places_.load()->Moved(*id_, static_cast<int64_t>(bytes));
    moved_ += static_cast<int64_t>(bytes);
  }

 private:
  void Become(Doing doing) {
    RIVULET_CHECK(doing_ != Doing::kFinishing, "a stream continues after its end");
    doing_ = doing;
  }

  ServedStreams& shared_;
  std::atomic<TransferPlaces*> places_ = &shared_.long_places;  // the queue of its place, once its turn has come
  grpc::CallbackServerContext* const context_;
  const StatusOr<uint64_t> id_;
  std::atomic<int64_t> moved_ = 0;
  Caller caller_;
  std::atomic<Doing> doing_ = Doing::kStarting;
};

}  // namespace rivulet
