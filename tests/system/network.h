// CoordinatorApi over an in-memory network that delays, loses, repeats and reorders what it carries, as the seed says.
//
//   Agent, Aggregator ──→ Link ──(there)──→ Address ──→ Coordinator, Aggregator
//                        ←──(back)──
//
// A call may be lost before or after its execution, arrive after its caller's timeout, or arrive a second time after
// its answer. Polls without news are held, as by gRPC's server. The server at an address may be replaced while calls
// are running.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "federated/transport/coordinator_api.h"
#include "tests/system/virtual_threads.h"

namespace rivulet::testing {

inline void SleepMs(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

class Chance {
 public:
  explicit Chance(uint64_t seed) : random_(seed) {}
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int64_t n) { return n > 0 && Below(n) == 0; }

 private:
  std::mt19937_64 random_;
};

struct Weather {
  int64_t most_delay_ms = 20;  // in each direction
  int64_t fault_one_in = 0;    // share of calls with a fault; 0: none
  int64_t gives_up_ms = 5000;  // a caller's timeout for a lost call
};

// Observes servers' answers, whether or not they arrive.
class Witness {
 public:
  virtual ~Witness() = default;
  virtual void Polled(const PollRequest& request, const PollReply& reply) = 0;
  // All bytes have arrived; the server may die before it can answer.
  virtual void Ends(const Submission& submission, const std::string& bytes) = 0;
  virtual void Sent(const Submission& submission, const std::string& bytes, const SubmitResult& result) = 0;
};

// An address with or without a server.
class Address {
 public:
  // Calls sent while no server was running are refused at once and never arrive later.
  void Open(CoordinatorApi& api) {
    api_ = &api;
    ++life_;
  }
  // Stops the server; no answer leaves any more.
  void Close() {
    api_ = nullptr;
    ++life_;
  }
  // Waits until running calls have ended.
  void AwaitEmpty() {
    while (inside_ > 0) SleepMs(1);
    streams_.clear();
  }

  // Changes with every server. Calls under way to an earlier one are lost with the connection.
  int64_t life() const { return life_; }
  template <typename Call>
  auto Do(int64_t life, const Call& call) -> decltype(call(std::declval<CoordinatorApi&>())) {
    if (api_ == nullptr || life != life_) return Unavailable("nobody listens there");
    ++inside_;
    auto answer = [&] {
      const Interleaved interleaved;
      return call(*api_);
    }();
    --inside_;
    if (life != life_) return Unavailable("the connection was lost");
    return answer;
  }

  // For submissions under way.
  int64_t Keep(std::unique_ptr<ChunkWriter> writer) {
    streams_[++last_] = std::move(writer);
    return last_;
  }
  void Drop(int64_t stream) { streams_.erase(stream); }
  std::shared_ptr<ChunkWriter> Stream(int64_t stream) const {
    const auto found = streams_.find(stream);
    return found == streams_.end() ? nullptr : found->second;
  }

 private:
  CoordinatorApi* api_ = nullptr;
  int64_t life_ = 0, inside_ = 0, last_ = 0;
  std::map<int64_t, std::shared_ptr<ChunkWriter>> streams_;
};

class Network {
 public:
  Network(Chance& chance, Witness& witness) : chance_(chance), witness_(witness) {}
  ~Network() { AwaitLate(); }
  void AwaitLate() {
    for (std::thread& thread : std::exchange(late_, {})) thread.join();
  }

  // Answers, or UNAVAILABLE. Parts of a stream are not delivered twice, nor after later parts.
  enum class Part : uint8_t { kAll, kOfStream, kEndOfStream };
  template <typename Call>
  auto Carry(Address& to, const bool& cut, Part part, const Call& call)
      -> decltype(call(std::declval<CoordinatorApi&>())) {
    if (cut) return Unavailable("the process is dead");
    const int64_t life = to.life();
    enum { kFine, kLost, kAnswerLost, kSlow, kLate, kTwice } fate = kFine;
    if (chance_.OneIn(weather.fault_one_in)) {
      const int64_t kinds = part == Part::kAll ? 5 : part == Part::kEndOfStream ? 4 : 3;
      fate = static_cast<decltype(fate)>(1 + chance_.Below(kinds));
      ++faults;
    }
    if (fate == kLate || fate == kTwice) {
      late_.emplace_back([&to, life, call, ms = chance_.Below(30'000)] {
        SleepMs(ms);
        (void)to.Do(life, call);
      });
    }
    if (fate == kLost || fate == kLate) {
      SleepMs(weather.gives_up_ms);
      return Unavailable("no answer came");
    }
    SleepMs(fate == kSlow ? chance_.Below(20'000) : chance_.Below(weather.most_delay_ms + 1));
    auto answer = to.Do(life, call);
    SleepMs(chance_.Below(weather.most_delay_ms + 1));
    if (cut || fate == kAnswerLost) return Unavailable("no answer came");
    return answer;
  }

  Weather weather;
  int64_t faults = 0;
  Chance& chance() { return chance_; }
  Witness& witness() { return witness_; }

 private:
  Chance& chance_;
  Witness& witness_;
  std::vector<std::thread> late_;
};

// One process's connection to an address.
class Link final : public CoordinatorApi {
 public:
  // `most_work_ms`: training takes no virtual time, so this delay is added before an update is sent.
  Link(Network& network, Address& to, int64_t most_work_ms) : network_(network), to_(to), most_work_ms_(most_work_ms) {}
  void Cut() { cut_ = true; }  // its process is dead

  StatusOr<PollReply> Poll(const PollRequest& request) override {
    return network_.Carry(
        to_, cut_, Network::Part::kAll, [&network = network_, request](CoordinatorApi& api) -> StatusOr<PollReply> {
          StatusOr<PollReply> reply = api.Poll(request);
          const bool idle = reply.ok() && reply->tasks.empty() && reply->cancelled.empty() &&
                            reply->hand_over.empty() && !reply->over && request.told && request.hold_ms > 0;
          if (idle) {
            api.AwaitWork(request.caller, reply->epoch, request.hold_ms);
            reply = api.Poll(request);
          }
          if (reply.ok()) network.witness().Polled(request, *reply);
          return reply;
        });
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
    const auto bytes = network_.Carry(to_, cut_, Network::Part::kAll,
                                      [caller, blob, offset](CoordinatorApi& api) -> StatusOr<std::string> {
                                        RIVULET_ASSIGN_OR_RETURN(const auto reader, api.Fetch(caller, blob, offset));
                                        std::string all;
                                        for (;;) {
                                          RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader->Next());
                                          if (chunk.empty()) return all;
                                          all.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
                                        }
                                      });
    RIVULET_RETURN_IF_ERROR(bytes.status());
    return std::make_unique<Reader>(*bytes, offset, network_.chance().OneIn(network_.weather.fault_one_in));
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    if (most_work_ms_ > 0) SleepMs(network_.chance().Below(most_work_ms_));
    struct Begun {
      int64_t stream = 0;
      std::vector<uint32_t> crcs;
      std::optional<SubmitResult> decided;
    };
    auto begun =
        network_.Carry(to_, cut_, Network::Part::kAll,
                       [&network = network_, &to = to_, caller, submission](CoordinatorApi& api) -> StatusOr<Begun> {
                         RIVULET_ASSIGN_OR_RETURN(auto writer, api.Submit(caller, submission));
                         Begun begun;
                         if (const SubmitResult* const decided = writer->decided()) {
                           begun.decided = *decided;
                           network.witness().Sent(submission, "", *decided);
                           return begun;
                         }
                         begun.crcs.assign(writer->staged_crcs().begin(), writer->staged_crcs().end());
                         begun.stream = to.Keep(std::move(writer));
                         return begun;
                       });
    RIVULET_RETURN_IF_ERROR(begun.status());
    return std::make_unique<Writer>(*this, submission, begun->stream, std::move(begun->crcs), begun->decided);
  }
  Status Fail(const Caller& caller, const TaskFailure& failure) override {
    return network_.Carry(to_, cut_, Network::Part::kAll,
                          [caller, failure](CoordinatorApi& api) { return api.Fail(caller, failure); });
  }

 private:
  // The result of a blob, in two halves; the second may be lost.
  class Reader final : public ChunkReader {
   public:
    Reader(std::string bytes, int64_t offset, bool breaks)
        : bytes_(std::move(bytes)), offset_(offset), breaks_(breaks) {}
    int64_t total_bytes() const override { return offset_ + std::ssize(bytes_); }
    StatusOr<std::span<const std::byte>> Next() override {
      const size_t rest = bytes_.size() - given_;
      const size_t size = std::min(rest, bytes_.size() / 2 + 1);
      if (given_ > 0 && rest > 0 && breaks_) return Unavailable("the connection was lost");
      given_ += size;
      return std::as_bytes(std::span(bytes_)).subspan(given_ - size, size);
    }

   private:
    const std::string bytes_;
    const int64_t offset_;
    const bool breaks_;
    size_t given_ = 0;
  };
  class Writer final : public ChunkWriter {
   public:
    Writer(Link& link, Submission submission, int64_t stream, std::vector<uint32_t> crcs,
           std::optional<SubmitResult> decided)
        : link_(link),
          submission_(std::move(submission)),
          stream_(stream),
          crcs_(std::move(crcs)),
          decided_(std::move(decided)) {}
    ~Writer() override {
      if (!gone_) link_.to_.Drop(stream_);
    }
    const SubmitResult* decided() const override { return decided_ ? &*decided_ : nullptr; }
    std::span<const uint32_t> staged_crcs() const override { return crcs_; }
    Status Resume(int64_t offset) override {
      whole_ = offset == 0;
      return Do([offset](ChunkWriter& writer) { return writer.Resume(offset); });
    }
    Status Write(std::span<const std::byte> chunk) override {
      const std::string bytes(reinterpret_cast<const char*>(chunk.data()), chunk.size());
      sent_ += bytes;
      return Do([bytes](ChunkWriter& writer) { return writer.Write(std::as_bytes(std::span(bytes))); });
    }
    StatusOr<SubmitResult> Finish(const Digest& identity) override {
      gone_ = true;  // late calls still need it
      Address& to = link_.to_;
      return link_.network_.Carry(to, link_.cut_, Network::Part::kEndOfStream,
                                  [&network = link_.network_, &to, stream = stream_, submission = submission_, identity,
                                   bytes = whole_ ? sent_ : std::string()](CoordinatorApi&) -> StatusOr<SubmitResult> {
                                    const std::shared_ptr<ChunkWriter> writer = to.Stream(stream);
                                    if (writer == nullptr) return Unavailable("the connection was lost");
                                    network.witness().Ends(submission, bytes);
                                    StatusOr<SubmitResult> result = writer->Finish(identity);
                                    if (result.ok()) network.witness().Sent(submission, bytes, *result);
                                    return result;
                                  });
    }

   private:
    template <typename Call>
    Status Do(const Call& call) {
      Address& to = link_.to_;
      return link_.network_.Carry(to, link_.cut_, Network::Part::kOfStream,
                                  [&to, stream = stream_, call](CoordinatorApi&) -> Status {
                                    const std::shared_ptr<ChunkWriter> writer = to.Stream(stream);
                                    return writer == nullptr ? Unavailable("the connection was lost") : call(*writer);
                                  });
    }

    Link& link_;
    const Submission submission_;
    const int64_t stream_;
    const std::vector<uint32_t> crcs_;
    const std::optional<SubmitResult> decided_;
    std::string sent_;
    bool whole_ = false, gone_ = false;
  };

  Network& network_;
  Address& to_;
  const int64_t most_work_ms_;
  bool cut_ = false;
};

}  // namespace rivulet::testing
