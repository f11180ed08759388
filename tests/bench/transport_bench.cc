// transport/CALL/WIRE: a poll that is answered at once, and 6.65 MB down and up, over one connection of loopback
// between a GrpcClient and a GrpcServer, in plaintext and under mutual TLS. Behind the server is memory: no disk, no
// fold. Both ends share this machine's cores, so that the figures are of the pair.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>

#include "certificates/ephemeral_authority.h"
#include "certificates/watched_identity.h"
#include "engine/base/check.h"
#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "federated/updates/block_crcs.h"

namespace rivulet::bench {
namespace {

constexpr int64_t kTransferBytes = 6'653'480;  // a CNN's parameters (McMahan et al.), as floats

class MemoryCoordinator final : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return PollReply{.wait_ms = 1}; }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    class Reader final : public ChunkReader {
     public:
      explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
      int64_t total_bytes() const override { return kTransferBytes; }
      StatusOr<std::span<const std::byte>> Next() override { return std::exchange(bytes_, {}); }

     private:
      std::span<const std::byte> bytes_;
    };
    return std::make_unique<Reader>(std::as_bytes(std::span(blob_)));
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission& submission) override {
    class Writer final : public ChunkWriter {
     public:
      explicit Writer(int64_t bytes) : staged_(static_cast<size_t>(bytes), '\0') {}
      std::span<const uint32_t> staged_crcs() const override { return {}; }
      Status Resume(int64_t) override { return absl::OkStatus(); }
      Status Write(std::span<const std::byte> chunk) override {
        std::copy_n(reinterpret_cast<const char*>(chunk.data()), chunk.size(), staged_.data() + at_);
        crcs_.Append(chunk);
        at_ += chunk.size();
        return absl::OkStatus();
      }
      StatusOr<SubmitResult> Finish(const Digest&) override { return SubmitResult{}; }

     private:
      std::string staged_;
      BlockCrcs crcs_;
      size_t at_ = 0;
    };
    return std::make_unique<Writer>(submission.bytes);
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }

 private:
  const std::string blob_ = std::string(static_cast<size_t>(kTransferBytes), 'x');
};

// A server and a client that is connected. Its certificates lie in a folder that goes when it begins to serve.
class Pair {
 public:
  explicit Pair(bool tls) { RIVULET_CHECK(Connect(tls).ok(), "the two ends of a benchmark do not meet"); }
  GrpcClient& client() { return *client_; }
  Caller caller() const { return {.name = "a"}; }

 private:
  static StatusOr<std::shared_ptr<const TransportCredentials>> CredentialsIn(const std::string& folder) {
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<WatchedIdentity> identity,
                             WatchedIdentity::Open(FileSystem::Default(), Clock::System(), folder, {}));
    return TlsCredentials(std::move(identity), nullptr);
  }
  Status Connect(bool tls) {
    std::shared_ptr<const TransportCredentials> server = InsecureCredentials(false), client = server;
    std::string folder = (std::filesystem::temp_directory_path() / "rivulet-bench-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) return Internal("no temporary folder");
    if (tls) {
      FileSystem& fs = FileSystem::Default();
      RIVULET_ASSIGN_OR_RETURN(const auto authority, EphemeralAuthority::Create(Clock::System()));
      RIVULET_RETURN_IF_ERROR(authority.Issue({.name = {Role::kCoordinator, "localhost"}, .hosts = {"127.0.0.1"}}, fs,
                                              JoinPath(folder, "server")));
      RIVULET_RETURN_IF_ERROR(
          authority.Issue({.name = {Role::kClient, "a"}, .hosts = {}}, fs, JoinPath(folder, "client")));
      RIVULET_ASSIGN_OR_RETURN(server, CredentialsIn(JoinPath(folder, "server")));
      RIVULET_ASSIGN_OR_RETURN(client, CredentialsIn(JoinPath(folder, "client")));
    }
    RIVULET_ASSIGN_OR_RETURN(server_,
                             GrpcServer::Start(api_, {.listen = {.host = "127.0.0.1"}, .credentials = server}));
    RIVULET_ASSIGN_OR_RETURN(client_, GrpcClient::Create({.coordinator = server_->address(), .credentials = client}));
    const Status met = client_->Poll({.caller = caller()}).status();
    std::filesystem::remove_all(folder);
    return met;
  }

  MemoryCoordinator api_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<GrpcClient> client_;
};

void PollBench(benchmark::State& state, bool tls) {
  Pair pair(tls);
  for (auto _ : state) {
    if (!pair.client().Poll({.caller = pair.caller()}).ok()) return state.SkipWithError("a poll failed");
  }
  state.SetItemsProcessed(state.iterations());
}

void FetchBench(benchmark::State& state, bool tls) {
  Pair pair(tls);
  for (auto _ : state) {
    int64_t got = 0;
    if (auto reader = pair.client().Fetch(pair.caller(), {}, 0); reader.ok()) {
      for (auto chunk = (*reader)->Next(); chunk.ok() && !chunk->empty(); chunk = (*reader)->Next()) {
        got += static_cast<int64_t>(chunk->size());
      }
    }
    if (got != kTransferBytes) return state.SkipWithError("not all of the bytes came");
  }
  state.SetBytesProcessed(state.iterations() * kTransferBytes);
}

void SubmitBench(benchmark::State& state, bool tls) {
  Pair pair(tls);
  const std::string bytes(static_cast<size_t>(kTransferBytes), 'x');
  for (auto _ : state) {
    auto writer = pair.client().Submit(pair.caller(), {.task = "t", .bytes = kTransferBytes});
    if (!writer.ok() || !(*writer)->Write(std::as_bytes(std::span(bytes))).ok() || !(*writer)->Finish({}).ok()) {
      return state.SkipWithError("an upload failed");
    }
  }
  state.SetBytesProcessed(state.iterations() * kTransferBytes);
}

const bool transport_registered = [] {
  for (const bool tls : {false, true}) {
    const std::string wire = tls ? "tls" : "plain";
    benchmark::RegisterBenchmark(("transport/poll/" + wire).c_str(), PollBench, tls)->UseRealTime();
    benchmark::RegisterBenchmark(("transport/fetch/" + wire).c_str(), FetchBench, tls)->UseRealTime();
    benchmark::RegisterBenchmark(("transport/submit/" + wire).c_str(), SubmitBench, tls)->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace rivulet::bench
