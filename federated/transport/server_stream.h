// Base of uploads and downloads at a server: their caller, their turn in the queue, their thread and their end.
// Internal to this folder.
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

// What the streams of a service share. Jobs that touch the api, and with it disks and other callers' folds, run on
// threads of their own: gRPC's must not block. Polls have theirs, so that no upload is before them.
struct ServedStreams {
  CoordinatorApi& api;
  const Callers callers;
  const bool admit_sites, admit_aggregators;
  StreamGuard guard;
  const TransferLimits limits;
  TransferPlaces short_places, long_places;
  std::unique_ptr<Executor> calls, streams;
  HeapTrim trim = {};
  // Of TransferTotals.
  struct Counts {
    std::atomic<int64_t> up = 0, up_wire = 0, down = 0, down_wire = 0;
  } counts = {};
};

// One stream of either direction. gRPC's reactors call back on gRPC's threads, concurrently where one lets them, may
// report an end while something is under way, and are theirs to delete; most of what can go wrong with them is two
// operations at once or a touch after the last. So there is exactly one thing under way at any time, and its name is
// kept: a callback is only the end of that thing, and hands over to a job; a job ends by beginning the next thing, and
// touches nothing after that. A cancellation is heard as the failure of what is under way, or of what the job begins
// next.
//
// The one exception is a transfer whose bytes come or go (kMoving): an upload may have a read and one job under way, a
// download a write and one job, who pass each other messages by a DoubleBuffer. Whoever of the two comes to the end of
// the stream gives the other nothing more.
template <typename Reactor>
class ServerStream : public Reactor {
 public:
  // gRPC's last word. The writer or reader of the api goes on the executor, as giving back memory or files takes time.
  // The one `delete this` that reactors force.
  void OnDone() final {
    if (id_.ok()) shared_.guard.Leave(*id_);
    shared_.streams->Run([this] {
      const auto id = id_;
      const int64_t moved = moved_;
      ServedStreams& shared = shared_;
      delete this;
      if (id.ok()) {  // what it held is free for the next
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
  // Whose stream it is, of a message that says so.
  Status Name(const rpc::CallerProto& message, const char* what) {
    caller_ = FromMessage(message);
    RIVULET_RETURN_IF_ERROR(IdentifyAgain());
    return shared_.guard.Name(*id_, caller_.name, what);
  }
  // Whether it may still go on: a stream may be open for long.
  Status IdentifyAgain() { return shared_.callers.Identify(*context_, &caller_); }

  // The last thing that a job or a callback does is one of these.
  void Work(std::function<void()> job) {
    Become(Doing::kWorking);
    shared_.streams->Run(std::move(job));
  }
  bool IsShort(int64_t bytes) const { return bytes <= shared_.limits.short_bytes; }
  // The same when it is this stream's turn to move so many bytes; until then none of them is asked for or sent. Not for
  // a peer that has gone or was shut out meanwhile. What turns out to be long may wait for its turn once more.
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
  // Messages are moved from now on until End or WriteLast. Who does so says when the peer is waited for.
  void Move() { Become(Doing::kMoving); }
  void Run(std::function<void()> job) { shared_.streams->Run(std::move(job)); }
  void End(const Status& status) {
    Become(Doing::kFinishing);
    if (id_.ok()) shared_.guard.End(*id_);
    this->Finish(ToGrpc(status));
  }

  // The first thing that a callback does; `bytes` of a transfer came or went.
  void Ended(Doing doing, size_t bytes) {
    RIVULET_CHECK(doing_ == doing, "a stream that does {} hears the end of {}", static_cast<int>(doing_.load()),
                  static_cast<int>(doing));
    Moved(bytes);
  }
  // Brackets of every wait for the peer.
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
  std::atomic<TransferPlaces*> places_ = &shared_.long_places;  // one of which it holds, from its turn on
  grpc::CallbackServerContext* const context_;
  const StatusOr<uint64_t> id_;
  std::atomic<int64_t> moved_ = 0;
  Caller caller_;
  std::atomic<Doing> doing_ = Doing::kStarting;
};

}  // namespace rivulet
