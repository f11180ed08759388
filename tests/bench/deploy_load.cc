// deploy_load transfer BYTES TURNS SPOOL [TLS]     uploads, downloads and small calls, ours and bare gRPC's, in turns
// deploy_load serve ours|bare [TLS]                a server that says its port and waits for the end of its input
// deploy_load exchange PORT CLIENTS BYTES           so many bare clients at once, each BYTES down and then up
// deploy_load hold ours|bare PORT CALLS [TLS]      so many connections, each with a call that is not answered
// deploy_load visit PORT NAMES                     so many clients that connect, poll once and leave
//
// What tests/bench/deploy.py makes rows of; a line of JSON each. SPOOL is a folder; TLS one with the folders
// `coordinator` and `client` of `rivulet ca issue`, and without it all is plaintext. In `transfer` both ends share this
// process.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "certificates/watched_identity.h"
#include "client/calls/send_submission.h"
#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "tests/bench/bare_grpc.h"
#include "tests/bench/staging_coordinator.h"

namespace rivulet::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kStagingBytes = int64_t{1} << 30;
constexpr int kPollsATurn = 300;
constexpr char kName[] = "client";   // as the certificate has it
constexpr int64_t kPollBytes = 100;  // about what a poll and its answer have

StatusOr<std::shared_ptr<const TransportCredentials>> CredentialsOf(const std::string& tls, const char* who) {
  if (tls.empty()) return InsecureCredentials(false);
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<WatchedIdentity> identity,
                           WatchedIdentity::Open(FileSystem::Default(), Clock::System(), JoinPath(tls, who), {}));
  return TlsCredentials(std::move(identity), nullptr);
}

StatusOr<std::unique_ptr<GrpcServer>> ServeOurs(CoordinatorApi& api, const std::string& tls) {
  RIVULET_ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(tls, "coordinator"));
  return GrpcServer::Start(api, {.listen = {.host = "127.0.0.1"}, .credentials = credentials});
}

StatusOr<std::unique_ptr<GrpcClient>> ConnectOurs(int port, const std::string& tls) {
  RIVULET_ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(tls, "client"));
  return GrpcClient::Create({.coordinator = {.host = "127.0.0.1", .port = port}, .credentials = credentials});
}

BareWire WireOf(const std::string& tls, const char* who) { return {tls.empty() ? "" : JoinPath(tls, who)}; }

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Way {
  const char* name;
  std::function<Status()> run;
  std::vector<double> seconds = {};
  std::vector<double> processor = {};  // of all threads of both ends
};

// Two ways to do one thing, in turns, so that what else the machine does befalls each alike: the ruler, then ours.
// Tells the median seconds of each, and the median of ours' speed over the ruler's, turn by turn.
Status InTurns(const char* what, int turns, std::array<Way, 2> ways) {
  for (int turn = -1; turn < turns; ++turn) {  // the first one warms up
    for (Way& way : ways) {
      const auto begin = std::chrono::steady_clock::now();
      const std::clock_t used = std::clock();
      RIVULET_RETURN_IF_ERROR(Annotate(way.run(), fmt::format("{} {}", what, way.name)));
      if (turn < 0) continue;
      way.processor.push_back(static_cast<double>(std::clock() - used));
      way.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::vector<double> shares, processor_shares;
  for (size_t turn = 0; turn < ways[0].seconds.size(); ++turn) {
    shares.push_back(ways[0].seconds[turn] / ways[1].seconds[turn]);
    processor_shares.push_back(ways[0].processor[turn] / ways[1].processor[turn]);
  }
  const Json line = {{"what", what},
                     {ways[0].name, Median(ways[0].seconds)},
                     {ways[1].name, Median(ways[1].seconds)},
                     {"share", Median(shares)},
                     {"processor_share", Median(processor_shares)}};
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
  return absl::OkStatus();
}

Status UploadOurs(GrpcClient& client, const std::shared_ptr<const std::string>& bytes, const BlockCrcs& crcs) {
  return SendSubmission(client, {.name = kName}, {.task = "t", .bytes = std::ssize(*bytes)},
                        std::as_bytes(std::span(*bytes)), crcs, {.holder = bytes})
      .status();
}

Status DownloadOurs(GrpcClient& client, int64_t bytes) {
  RIVULET_ASSIGN_OR_RETURN(const auto reader, client.Fetch({.name = kName}, {}, 0));
  int64_t got = 0;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const auto chunk, reader->Next());
    if (chunk.empty()) break;
    got += std::ssize(chunk);
  }
  return got == bytes ? absl::OkStatus() : Internal("{} of {} bytes came", got, bytes);
}

// The same bytes by plain `write` into a file without a name, as a spool file is.
Status WriteBare(const std::string& folder, const std::string& bytes) {
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return Unavailable("'{}': no file without a name can be made there", folder);
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t wrote = write(file, bytes.data() + at, std::min<size_t>(bytes.size() - at, 1 << 20));
    if (wrote <= 0) break;
    at += static_cast<size_t>(wrote);
  }
  close(file);
  return at == bytes.size() ? absl::OkStatus() : Unavailable("'{}' is full", folder);
}

Status Transfer(int64_t bytes, int turns, const std::string& spool, const std::string& tls) {
  StagingCoordinator staging(spool, kStagingBytes, bytes), spooling(spool, 0, 1);
  RIVULET_ASSIGN_OR_RETURN(const auto ours_server, ServeOurs(staging, tls));
  RIVULET_ASSIGN_OR_RETURN(const auto spool_server, ServeOurs(spooling, tls));
  RIVULET_ASSIGN_OR_RETURN(const auto bare_server, BareServer::Start(WireOf(tls, "coordinator")));
  RIVULET_ASSIGN_OR_RETURN(const auto ours, ConnectOurs(ours_server->address().port, tls));
  RIVULET_ASSIGN_OR_RETURN(const auto to_spool, ConnectOurs(spool_server->address().port, tls));
  RIVULET_ASSIGN_OR_RETURN(const auto bare, BareClient::Connect(WireOf(tls, "client"), bare_server->port()));
  const auto update = std::make_shared<const std::string>(static_cast<size_t>(bytes), 'u');
  BlockCrcs crcs;
  crcs.Append(std::as_bytes(std::span(*update)));

  RIVULET_RETURN_IF_ERROR(InTurns(
      "upload", turns,
      {Way{"bare", [&] { return bare->Upload(bytes); }}, {"ours", [&] { return UploadOurs(*ours, update, crcs); }}}));
  RIVULET_RETURN_IF_ERROR(InTurns("spool", turns,
                                  {Way{"bare", [&] { return WriteBare(spool, *update); }},
                                   {"ours", [&] { return UploadOurs(*to_spool, update, crcs); }}}));
  RIVULET_RETURN_IF_ERROR(InTurns(
      "download", turns,
      {Way{"bare", [&] { return bare->Download(bytes); }}, {"ours", [&] { return DownloadOurs(*ours, bytes); }}}));
  const auto polls = [](const auto& once) {
    for (int i = 0; i < kPollsATurn; ++i) RIVULET_RETURN_IF_ERROR(once());
    return absl::OkStatus();
  };
  return InTurns("poll", turns,
                 {Way{"bare", [&] { return polls([&] { return bare->Echo(kPollBytes); }); }},
                  {"ours", [&] { return polls([&] { return ours->Poll({.caller = {.name = kName}}).status(); }); }}});
}

Status Serve(bool ours, const std::string& tls) {
  StagingCoordinator staging("/tmp", kStagingBytes, 1);
  std::unique_ptr<GrpcServer> server;
  std::unique_ptr<BareServer> bare;
  if (ours) {
    RIVULET_ASSIGN_OR_RETURN(server, ServeOurs(staging, tls));
  } else {
    RIVULET_ASSIGN_OR_RETURN(bare, BareServer::Start(WireOf(tls, "coordinator")));
  }
  fmt::print("{}\n", ours ? server->address().port : bare->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return absl::OkStatus();
}

// Says when all hang, and lets go of them at the end of its input, by ending.
Status Hold(bool ours, int port, int calls, const std::string& tls) {
  std::vector<std::unique_ptr<BareClient>> bare;
  std::vector<std::unique_ptr<GrpcClient>> clients;
  std::vector<std::thread> threads;
  for (int i = 0; i < calls; ++i) {
    if (ours) {
      RIVULET_ASSIGN_OR_RETURN(auto client, ConnectOurs(port, tls));
      RIVULET_RETURN_IF_ERROR(client->Poll({.caller = {.name = kName}}).status());
      threads.emplace_back(
          [&client = *client] { (void)client.Poll({.caller = {.name = kName}, .hold_ms = 60'000, .told = true}); });
      clients.push_back(std::move(client));
    } else {
      RIVULET_ASSIGN_OR_RETURN(auto client, BareClient::Connect(WireOf(tls, "client"), port));
      RIVULET_RETURN_IF_ERROR(client->Hold());
      bare.push_back(std::move(client));
    }
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  fmt::print("held\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  std::_Exit(0);
}

Status Visit(int port, int names) {
  std::atomic<int> next = 0, failed = 0;
  std::vector<std::thread> visitors;
  const auto begin = std::chrono::steady_clock::now();
  for (int visitor = 0; visitor < 8; ++visitor) {
    visitors.emplace_back([&] {
      for (int i = next++; i < names; i = next++) {
        const auto client = ConnectOurs(port, "");
        const Caller caller{.name = fmt::format("client-{:05}", i), .session = static_cast<uint64_t>(i) + 1};
        if (!client.ok() || !(*client)->Poll({caller, {.version = "load", .datasets = {{"train", 10}}}}).ok()) ++failed;
      }
    });
  }
  for (std::thread& visitor : visitors) visitor.join();
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{}\n", Json{{"visits", names}, {"failed", failed.load()}, {"seconds", took}}.dump());
  return absl::OkStatus();
}

Status Exchange(int port, int clients, int64_t bytes) {
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  const auto begin = std::chrono::steady_clock::now();
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&] {
      const auto bare = BareClient::Connect({}, port);
      if (!bare.ok() || !(*bare)->Download(bytes).ok() || !(*bare)->Upload(bytes).ok()) ++failed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{}\n", Json{{"clients", clients}, {"failed", failed.load()}, {"seconds", took}}.dump());
  return absl::OkStatus();
}

Status Run(const std::vector<std::string>& words) {
  const auto word = [&](size_t i) { return i < words.size() ? words[i] : std::string(); };
  const auto number = [&](size_t i) { return std::atoi(word(i).c_str()); };
  if (word(0) == "transfer") return Transfer(std::atoll(word(1).c_str()), number(2), word(3), word(4));
  if (word(0) == "serve") return Serve(word(1) == "ours", word(2));
  if (word(0) == "exchange") return Exchange(number(1), number(2), std::atoll(word(3).c_str()));
  if (word(0) == "hold") return Hold(word(1) == "ours", number(2), number(3), word(4));
  if (word(0) == "visit") return Visit(number(1), number(2));
  return InvalidArgument(
      "deploy_load transfer | serve | exchange | hold | visit: see the head of tests/bench/deploy_load.cc");
}

}  // namespace
}  // namespace rivulet::bench

int main(int argc, char** argv) {
  const rivulet::Status status = rivulet::bench::Run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  fmt::print(stderr, "deploy_load: {}\n", rivulet::Message(status));
  return 1;
}
