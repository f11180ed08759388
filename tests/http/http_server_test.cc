// Limits of the HTTP front, over real sockets: refusals before authentication, and their delays.
#include "http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "certificates/watched_identity.h"
#include "tests/certificates/test_authority.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A caller that sends bytes and reads what comes until the server closes.
class Peer {
 public:
  explicit Peer(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    const timeval patience{30, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Peer() { close(socket_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool connected() const { return connected_; }
  // False: the server has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // What comes until `end` of it is there, or until the server closes.
  std::string ReadUntil(std::string_view end) {
    std::string read;
    char bytes[4096];
    while (end.empty() || read.find(end) == std::string::npos) {
      const ssize_t got = recv(socket_, bytes, sizeof bytes, 0);
      if (got <= 0) break;
      read.append(bytes, static_cast<size_t>(got));
    }
    return read;
  }
  std::string ReadAll() { return ReadUntil(""); }
  void EndSending() { shutdown(socket_, SHUT_WR); }

 private:
  const int socket_;
  bool connected_ = false;
};

constexpr char kGet[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
constexpr char kLastGet[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";

class HttpServerTest : public ::testing::Test {
 protected:
  void Start(const HttpLimits& limits = {}) {
    server_ = HttpServer::Create({.address = "127.0.0.1:0", .token_file = "", .tls = "", .limits = limits}, {}).value();
    server_->Handle("/",
                    [](const HttpRequest& request) { return HttpReply{.body = "page " + request.Parameter("q")}; });
    server_->Handle("/slow", [this](const HttpRequest&) {
      ++slow_;
      while (!released_) std::this_thread::sleep_for(milliseconds(1));
      return HttpReply{.body = "at last"};
    });
    server_->Handle("/large", [](const HttpRequest&) { return HttpReply{.body = std::string(64 << 20, 'x')}; });
    server_->HandleStream("/feed", [](const HttpRequest&) {
      class Ticks final : public HttpStream {
       public:
        std::optional<std::string> Next(milliseconds) override {
          return "data: tick" + std::string(1 << 20, '.') + "\n\n";
        }
      };
      return std::make_unique<Ticks>();
    });
    server_->Start();
    const std::string url = server_->url();
    port_ = std::stoi(url.substr(url.rfind(':') + 1));
  }
  std::string Answer(const std::string& request) {
    Peer peer(port_);
    peer.Send(request);
    return peer.ReadAll();
  }
  void TearDown() override {
    released_ = true;
    if (server_ != nullptr) server_->Stop();
  }

  std::atomic<bool> released_ = false;
  std::atomic<int> slow_ = 0;
  std::unique_ptr<HttpServer> server_;
  int port_ = 0;
};

TEST_F(HttpServerTest, Connection_IsKeptForSeveralRequests) {
  Start();
  Peer peer(port_);
  for (const char* q : {"a", "b%20c", "d+e"}) {
    ASSERT_TRUE(peer.Send(fmt::format("GET /?q={} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", q, port_)));
    EXPECT_THAT(peer.ReadUntil("page "), StartsWith("HTTP/1.1 200"));
  }
}

TEST_F(HttpServerTest, Head_HasTheLengthAndNoBody) {
  Start();
  EXPECT_THAT(Answer("HEAD /?q=x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Length: 6"), ::testing::Not(HasSubstr("page"))));
}

TEST_F(HttpServerTest, HeaderBeyondItsBytes_IsRefusedAndClosed) {
  Start();
  const std::string long_field = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + std::string(80 << 10, 'x') + "\r\n\r\n";
  EXPECT_THAT(Answer(long_field), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Answer("GET /" + std::string(80 << 10, 'x')), StartsWith("HTTP/1.1 431")) << "of a line without an end";
}

// Of a header that never ends no more than its limit is read.
TEST_F(HttpServerTest, HeaderWithoutEnd_IsCutOff) {
  Start();
  Peer peer(port_);
  size_t sent = 0;
  const std::string field = "X-Y: " + std::string(1000, 'z') + "\r\n";
  ASSERT_TRUE(peer.Send("GET / HTTP/1.1\r\n"));
  const auto end = Steady::now() + std::chrono::seconds(20);
  while (Steady::now() < end && peer.Send(field)) sent += field.size();
  EXPECT_LT(Steady::now(), end) << sent << " bytes were taken";
}

TEST_F(HttpServerTest, LongTarget_IsRefused) {
  Start();
  EXPECT_THAT(Answer("GET /?q=" + std::string(8200, 'x') + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
              StartsWith("HTTP/1.1 414"));
  EXPECT_THAT(Answer("GET /?q=" + std::string(8000, 'x') + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, MoreThanAHundredFields_AreRefused) {
  Start();
  const auto with = [](int fields) {
    std::string request = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n";
    for (int i = 2; i < fields; ++i) request += fmt::format("X-{}: y\r\n", i);
    return request + "\r\n";
  };
  EXPECT_THAT(Answer(with(100)), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Answer(with(101)), StartsWith("HTTP/1.1 431"));
}

TEST_F(HttpServerTest, BodyOrDataBehindARequest_IsRefusedAndClosed) {
  Start();
  const std::string head = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  for (const std::string& request :
       {head + "Content-Length: 4\r\n\r\nGET ", head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        head + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n", head + "Content-Length: -1\r\n\r\n",
        head + "Host: localhost\r\n\r\n", std::string("GET / HTTP/1.1\r\n\r\n"), kGet + std::string(kGet),
        kGet + std::string("x"), head + "X : y\r\n\r\n", std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n"}) {
    const std::string answer = Answer(request);  // all that comes, until it is closed
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400")) << request;
    EXPECT_THAT(answer, HasSubstr("Connection: close")) << request;
  }
}

TEST_F(HttpServerTest, OtherMethods_AreRefusedAndClosed) {
  Start();
  EXPECT_THAT(Answer("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Answer("BREW / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), StartsWith("HTTP/1.1 405"));
}

// A byte now and then does not move the deadline.
TEST_F(HttpServerTest, HeaderThatCrawls_IsCutOffAtItsDeadline) {
  Start({.header = milliseconds(300)});
  Peer peer(port_);
  const auto begin = Steady::now();
  while (Steady::now() - begin < std::chrono::seconds(20) && peer.Send("x"))
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_LT(Steady::now() - begin, std::chrono::seconds(20));
  Peer silent(port_);
  EXPECT_EQ(silent.ReadAll(), "") << "nor is one that says nothing kept";
}

TEST_F(HttpServerTest, ReaderThatStopsReading_IsCutOffAtItsDeadline) {
  Start({.write = milliseconds(300)});
  Peer peer(port_);
  ASSERT_TRUE(peer.Send("GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_LT(peer.ReadAll().size(), size_t{64} << 20);
}

TEST_F(HttpServerTest, StreamWithoutAReader_IsCutOffAtItsDeadline) {
  Start({.stream_write = milliseconds(300)});
  Peer deaf(port_);
  ASSERT_TRUE(deaf.Send("GET /feed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
  // It ends for the server though this side never reads: what it was sent is finite.
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_THAT(deaf.ReadAll(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, ConnectionsOfOneAddress_AreBounded) {
  Start({.connections_of_address = 4});
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 4; ++i) {
    peers.push_back(std::make_unique<Peer>(port_));
    ASSERT_TRUE(peers.back()->Send(kGet));
    EXPECT_THAT(peers.back()->ReadUntil("page "), StartsWith("HTTP/1.1 200"));
  }
  EXPECT_EQ(Answer(kLastGet), "") << "closed at once";
  peers.clear();
  const auto end = Steady::now() + std::chrono::seconds(20);
  std::string answer;
  while (answer.empty() && Steady::now() < end) answer = Answer(kLastGet);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200")) << "when the others have gone";
}

TEST_F(HttpServerTest, StreamsBeyondTheirPlaces_AreTurnedAway) {
  Start();
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < HttpServer::kStreams; ++i) {
    peers.push_back(std::make_unique<Peer>(port_));
    ASSERT_TRUE(peers.back()->Send("GET /feed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
    EXPECT_THAT(peers.back()->ReadUntil("tick"), HasSubstr("text/event-stream"));
  }
  EXPECT_THAT(Answer("GET /feed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Answer(kLastGet), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, HandlerThatBlocks_KeepsNoOtherPageWaiting) {
  Start();
  Peer slow(port_);
  ASSERT_TRUE(slow.Send("GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"));
  while (slow_ == 0) std::this_thread::yield();
  EXPECT_THAT(Answer(kLastGet), StartsWith("HTTP/1.1 200"));
  released_ = true;
  EXPECT_THAT(slow.ReadAll(), HasSubstr("at last"));
}

// None of them is waited for: the least time that a connection has is ten seconds.
TEST_F(HttpServerTest, Stop_ClosesEverything) {
  Start();
  std::vector<std::unique_ptr<Peer>> peers;
  for (const char* bytes : {"", "GET / HT", kGet, "GET /feed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                            "GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"}) {
    for (int i = 0; i < 5; ++i) {
      peers.push_back(std::make_unique<Peer>(port_));
      peers.back()->Send(bytes);
    }
  }
  EXPECT_THAT(Answer(kLastGet), StartsWith("HTTP/1.1 200"));
  const auto begin = Steady::now();
  server_->Stop();
  EXPECT_LT(Steady::now() - begin, std::chrono::seconds(5));
  EXPECT_FALSE(server_->running());
}

// A server of calls: programs read its refusals, so all are JSON.
class HttpCallsTest : public HttpServerTest {
 protected:
  void StartCalls(const HttpLimits& limits) {
    server_ = HttpServer::Create({.address = "127.0.0.1:0", .token_file = "", .tls = "", .limits = limits}, {}).value();
    server_->HandleCalls("/call", [](std::shared_ptr<const HttpCallRequest> request, HttpServer::CallReply reply) {
      reply({.content_type = "application/json", .body = std::to_string(request->body.size())});
    });
    server_->Start();
    const std::string url = server_->url();
    port_ = std::stoi(url.substr(url.rfind(':') + 1));
  }
  static std::string Post(const std::string& fields, const std::string& body = "") {
    return "POST /call HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + fields + "\r\n\r\n" + body;
  }
  static auto Refused(const std::string& status, const std::string& sentence) {
    return AllOf(StartsWith("HTTP/1.1 " + status), HasSubstr("application/json"),
                 HasSubstr("{\"error\":\"" + sentence));
  }
};

TEST_F(HttpCallsTest, BodiesThatCannotBeRead_AreRefusedInJson) {
  StartCalls({.body_bytes = 1000});
  EXPECT_THAT(Answer(Post("Content-Length: 1000", std::string(1000, 'x'))),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("1000")));
  EXPECT_THAT(Answer(Post("Content-Length: 1000000000")),
              Refused("413", "The body of this request is longer than 1000"));
  EXPECT_THAT(Answer(Post("Transfer-Encoding: chunked", "7d0\r\n" + std::string(2000, 'x') + "\r\n0\r\n\r\n")),
              Refused("413", "The body of this request is longer than 1000"));
  EXPECT_THAT(Answer(Post("Transfer-Encoding: chunked", "no size\r\n")), Refused("400", ""));
  EXPECT_THAT(Answer("GET /elsewhere HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"), Refused("404", ""));
  EXPECT_THAT(Answer("POST /call HTTP/1.1\r\nHost: elsewhere.example\r\nContent-Length: 0\r\n\r\n"),
              Refused("403", ""));
}

TEST_F(HttpCallsTest, UnfinishedBody_IsRefusedWhenItEndsOrItsTimeDoes) {
  StartCalls({.body_bytes = 1000, .body = milliseconds(300)});
  Peer ended(port_);
  ASSERT_TRUE(ended.Send(Post("Content-Length: 100", "half")));
  ended.EndSending();
  EXPECT_THAT(ended.ReadAll(), Refused("400", "The body of this request ends before its length"));
  Peer silent(port_);
  ASSERT_TRUE(silent.Send(Post("Content-Length: 100", "half")));
  EXPECT_THAT(silent.ReadAll(), Refused("408", "The body of this request did not come"));
}

TEST_F(HttpCallsTest, BodiesBeyondTheirRoom_AreRefusedUntilOneIsDone) {
  StartCalls({.body_bytes = 1000, .bodies_bytes = 1500});
  Peer first(port_);
  ASSERT_TRUE(first.Send(Post("Content-Length: 1000\r\nExpect: 100-continue")));
  EXPECT_THAT(first.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  EXPECT_THAT(Answer(Post("Content-Length: 1000", std::string(1000, 'x'))), Refused("503", "Too many bodies"));
  EXPECT_THAT(Answer(Post("Content-Length: 500", std::string(500, 'x'))), StartsWith("HTTP/1.1 200"));
  ASSERT_TRUE(first.Send(std::string(1000, 'x')));
  EXPECT_THAT(first.ReadAll(), HasSubstr("200 OK"));
  EXPECT_THAT(Answer(Post("Content-Length: 1000", std::string(1000, 'x'))), StartsWith("HTTP/1.1 200"));
}

class HttpServerTlsTest : public testing::AuthorityTest {};

TEST_F(HttpServerTlsTest, HandshakeThatCrawls_IsCutOffAtItsDeadline) {
  clock_.Advance(Clock::System().UnixMs() - clock_.UnixMs());  // the server goes by the system's
  ASSERT_OK(Init());
  ASSERT_OK(Issue("coordinator/localhost", "server", {"localhost"}));
  const HttpOptions options{
      .address = "127.0.0.1:0", .token_file = "", .tls = Path("server"), .limits = {.handshake = milliseconds(300)}};
  ASSERT_OK_AND_ASSIGN(const auto server, HttpServer::Create(options, [](const std::string&) {}));
  server->Start();
  const std::string url = server->url();
  Peer silent(std::stoi(url.substr(url.rfind(':') + 1)));
  EXPECT_EQ(silent.ReadAll(), "");
  Peer plain(std::stoi(url.substr(url.rfind(':') + 1)));
  ASSERT_TRUE(plain.Send(kGet));
  EXPECT_THAT(plain.ReadAll(), ::testing::Not(HasSubstr("HTTP"))) << "nothing is said in plaintext";
}

TEST_F(HttpServerTest, PortThatIsTaken_IsUnavailable) {
  Start();
  EXPECT_THAT(HttpServer::Create({.address = fmt::format("127.0.0.1:{}", port_), .token_file = "", .tls = ""}, {}),
              ::rivulet::testing::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("could not be taken")));
}

}  // namespace
}  // namespace rivulet
