// Mutual TLS between a GrpcServer and GrpcClients, with certificates of an authority under a clock that the test moves:
// who is admitted as whom, who is refused and with which words on either side, and what counts without a restart.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "certificates/watched_identity.h"
#include "engine/base/mutex.h"
#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "tests/certificates/test_authority.h"

namespace rivulet::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class RemembersCaller final : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    MutexLock lock(mutex);
    caller = request.caller;
    ++polls;
    return PollReply{};
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return NotFound("no blob");
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    return NotFound("no task");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }

  Mutex mutex;
  Caller caller;
  int polls = 0;
};

// What a side tells its log.
class Words {
 public:
  std::function<void(const std::string&)> Hear() {
    return [this](const std::string& sentence) {
      MutexLock lock(mutex_);
      sentences_.push_back(sentence);
    };
  }
  std::vector<std::string> sentences() {
    MutexLock lock(mutex_);
    return sentences_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> sentences_;
};

class Tls : public AuthorityTest {
 protected:
  void SetUp() override {
    ASSERT_OK(Init());
    ASSERT_OK(Issue("coordinator/localhost", "server", {"localhost", "127.0.0.1"}));
    ASSERT_OK(Issue("client/a", "a"));
  }

  StatusOr<std::shared_ptr<const TransportCredentials>> CredentialsOf(const std::string& folder, Words& words) {
    RIVULET_ASSIGN_OR_RETURN(
        std::shared_ptr<WatchedIdentity> identity,
        WatchedIdentity::Open(fs_, clock_, Path(folder), {.tell = words.Hear(), .look_every_ms = 0}));
    return TlsCredentials(std::move(identity), words.Hear());
  }
  Status StartServer(const std::string& folder = "server", int port = 0, bool admit_aggregators = false) {
    RIVULET_ASSIGN_OR_RETURN(auto credentials, CredentialsOf(folder, server_words_));
    RIVULET_ASSIGN_OR_RETURN(server_, GrpcServer::Start(api_, {.listen = {.host = "127.0.0.1", .port = port},
                                                               .credentials = std::move(credentials),
                                                               .admit_aggregators = admit_aggregators,
                                                               .on_revoked = [this](const RevokedPeer& peer) {
                                                                 MutexLock lock(revoked_mutex_);
                                                                 revoked_.push_back(peer);
                                                               }}));
    return absl::OkStatus();
  }
  StatusOr<std::unique_ptr<GrpcClient>> ClientOf(const std::string& folder, const std::string& host = "127.0.0.1") {
    RIVULET_ASSIGN_OR_RETURN(auto credentials, CredentialsOf(folder, client_words_));
    return GrpcClient::Create(
        {.coordinator = {.host = host, .port = server_->address().port}, .credentials = std::move(credentials)});
  }
  static Status Poll(GrpcClient& client, const std::string& name = "") {
    return client.Poll({.caller = {.name = name, .session = 1}}).status();
  }
  // The first answer of a client with this folder.
  Status PollAs(const std::string& folder, const std::string& name = "", const std::string& host = "127.0.0.1") {
    RIVULET_ASSIGN_OR_RETURN(const auto client, ClientOf(folder, host));
    return Poll(*client, name);
  }
  void Revoke(const std::string& name) {
    ASSERT_OK_AND_ASSIGN(auto authority, Open());
    ASSERT_OK(authority->RevokeName(Name(name), RevocationReason::kKeyCompromise));
    WriteFile(Path("server/revoked.crl"), authority->revocation_list());
  }
  void WriteFile(const std::string& path, const std::string& bytes) {
    ASSERT_OK(WriteFileAtomically(fs_, path, bytes));
  }
  // The certificate of `folder` renewed into its place, for the same key.
  void Renew(const std::string& name, const std::string& folder, std::vector<std::string> hosts = {}) {
    ASSERT_OK_AND_ASSIGN(auto authority, Open());
    ASSERT_OK_AND_ASSIGN(const KeyHandle key, ReadKey(ContentOf(Path(folder + "/node.key")), folder));
    Delivery delivery(fs_, Path(folder + ".renewed"), Delivery::Form::kFolder);
    ASSERT_OK(authority->Issue(
        {.subject = SubjectOf(name, std::move(hosts)),
         .days = std::nullopt,
         .public_key = key.get(),
         .renewal = true,
         .files =
             [](const Certificate& certificate) { return FilesOfNode({.key = "", .certificate = certificate.Pem()}); }},
        delivery));
    WriteFile(Path(folder + "/node.crt"), ContentOf(Path(folder + ".renewed/node.crt")));
  }
  // gRPC looks once a second.
  template <typename Condition>
  static bool Within(std::chrono::seconds limit, Condition condition) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  std::string SerialOfServer(int port) {
    const Shaken shaken = Shake(port, "a", TLS1_3_VERSION);
    return shaken.serial;
  }

  struct Shaken {
    bool done = false;
    std::string serial;  // of the server's certificate
  };
  // A handshake by OpenSSL alone, in no other version than this; "": without a certificate.
  Shaken Shake(int port, const std::string& folder, int version) {
    using ContextHandle = OpenSslHandle<SSL_CTX, SSL_CTX_free>;
    using ConnectionHandle = OpenSslHandle<SSL, SSL_free>;
    const ContextHandle context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_min_proto_version(context.get(), version);
    SSL_CTX_set_max_proto_version(context.get(), version);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
    if (!folder.empty()) {
      const Certificate certificate = ReadCertificate(ContentOf(Path(folder + "/node.crt")), folder).value();
      const KeyHandle key = ReadKey(ContentOf(Path(folder + "/node.key")), folder).value();
      SSL_CTX_use_certificate(context.get(), certificate.x509.get());
      SSL_CTX_use_PrivateKey(context.get(), key.get());
    }
    const int end = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Shaken shaken;
    if (connect(end, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      const ConnectionHandle ssl(SSL_new(context.get()));
      const unsigned char protocols[] = {2, 'h', '2'};
      SSL_set_alpn_protos(ssl.get(), protocols, sizeof(protocols));
      SSL_set_fd(ssl.get(), end);
      // Through is through only when the other end speaks: in TLS 1.3 it may still refuse what it was shown.
      char byte;
      shaken.done = SSL_connect(ssl.get()) == 1 && SSL_read(ssl.get(), &byte, 1) == 1;
      if (X509Handle peer(SSL_get1_peer_certificate(ssl.get())); peer != nullptr)
        shaken.serial = CertificateOf(std::move(peer), "the server's").value().serial;
    }
    close(end);
    return shaken;
  }

  RemembersCaller api_;
  Words server_words_, client_words_;
  Mutex revoked_mutex_;
  std::vector<RevokedPeer> revoked_ GUARDED_BY(revoked_mutex_);
  std::unique_ptr<GrpcServer> server_;
};

constexpr std::string_view kLibraryWords[] = {"SSL", "ipv4:", "handshake", "UNKNOWN", "subchannel", "Socket"};

void ExpectOurWords(const Status& status) {
  for (const std::string_view word : kLibraryWords) EXPECT_THAT(std::string(Message(status)), Not(HasSubstr(word)));
}

TEST_F(Tls, Client_IsItsCertificatesName) {
  ASSERT_OK(StartServer());
  ASSERT_OK(PollAs("a"));
  EXPECT_EQ(api_.caller.name, "a");
  EXPECT_EQ(api_.caller.certificate_serial, Load("a")->serial);
  ASSERT_OK(PollAs("a", "a", "localhost"));
}

TEST_F(Tls, NameOfAnother_IsRefusedOnEveryCall) {
  ASSERT_OK(StartServer());
  ASSERT_OK_AND_ASSIGN(const auto client, ClientOf("a"));
  const auto refused = StatusIs(absl::StatusCode::kPermissionDenied,
                                AllOf(HasSubstr("in the name of 'b'"), HasSubstr("certificate of 'client/a'")));
  EXPECT_THAT(Poll(*client, "b"), refused);
  EXPECT_THAT(client->Fail({.name = "b"}, {.task = "t"}), refused);
  EXPECT_THAT(client->Fetch({.name = "b"}, {}, 0).status(), refused);
  EXPECT_THAT(client->Submit({.name = "b"}, {.task = "t"}).status(), refused);
  EXPECT_EQ(api_.polls, 0);
  EXPECT_THAT(server_words_.sentences(),
              ::testing::ElementsAre(HasSubstr("refused a call: a call in the name of 'b'")));
}

TEST_F(Tls, Operator_MayNotPoll) {
  ASSERT_OK(Issue("operator/o", "o"));
  ASSERT_OK(StartServer());
  EXPECT_THAT(PollAs("o"), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("'operator/o' is not a client's")));
}

TEST_F(Tls, Tls12_IsRefusedAndTls13IsNot) {
  ASSERT_OK(StartServer());
  EXPECT_TRUE(Shake(server_->address().port, "a", TLS1_3_VERSION).done);
  EXPECT_FALSE(Shake(server_->address().port, "a", TLS1_2_VERSION).done);
}

TEST_F(Tls, NoCertificate_IsRefused) {
  ASSERT_OK(StartServer());
  EXPECT_FALSE(Shake(server_->address().port, "", TLS1_3_VERSION).done);
}

TEST_F(Tls, ClientOfAnotherAuthority_IsToldSoOnBothSides) {
  ASSERT_OK(Init("other"));
  ASSERT_OK(Issue("client/a", "stranger", {}, std::nullopt, "other"));
  ASSERT_OK(StartServer());
  // It does not believe the coordinator either, and says so before the coordinator has seen it.
  const Status status = PollAs("stranger");
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("'coordinator/localhost' is not signed by the authority 'Heart study'; have")));
  ExpectOurWords(status);
  // One that believes everybody is refused.
  EXPECT_FALSE(Shake(server_->address().port, "stranger", TLS1_3_VERSION).done);
  EXPECT_THAT(
      server_words_.sentences(),
      Contains(HasSubstr("refused a connection: the certificate of 'client/a' is not signed by the authority")));
}

TEST_F(Tls, RevokedClient_IsRefusedAtTheHandshakeInWords) {
  ASSERT_OK(StartServer());
  Revoke("client/a");
  const Status status = PollAs("a");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr(Load("a")->serial), HasSubstr("does not admit the certificate"))));
  ExpectOurWords(status);
  EXPECT_THAT(server_words_.sentences(),
              Contains(AllOf(HasSubstr("refused a connection"), HasSubstr("was revoked on"), HasSubstr("another"))));
  EXPECT_EQ(api_.polls, 0);
}

// Whoever decides about leases hears of it, whether it is refused at its handshake or at a call.
TEST_F(Tls, RevokedClient_IsReportedWithItsNameSerialAndSentence) {
  ASSERT_OK(Issue("client/b", "b"));
  ASSERT_OK(StartServer());
  ASSERT_OK_AND_ASSIGN(const auto client, ClientOf("a"));
  ASSERT_OK(Poll(*client));
  Revoke("client/a");
  const auto reported = [this] {
    MutexLock lock(revoked_mutex_);
    return revoked_;
  };
  EXPECT_THAT(Poll(*client), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("was revoked")));
  EXPECT_TRUE(Within(std::chrono::seconds(10), [&] { return !reported().empty(); }));
  EXPECT_FALSE(PollAs("a").ok());
  EXPECT_TRUE(Within(std::chrono::seconds(10), [&] { return reported().size() > 1; }));
  EXPECT_OK(PollAs("b"));
  for (const RevokedPeer& peer : reported()) {
    EXPECT_EQ(peer.name, "client/a");
    EXPECT_EQ(peer.serial, Load("a")->serial);
    EXPECT_THAT(peer.sentence, HasSubstr("was revoked on"));
  }
}

TEST_F(Tls, RevokedClientWithAnOpenConnection_IsRefusedAtItsNextCall) {
  ASSERT_OK(Issue("client/b", "b"));
  ASSERT_OK(StartServer());
  ASSERT_OK_AND_ASSIGN(const auto client, ClientOf("a"));
  ASSERT_OK_AND_ASSIGN(const auto other, ClientOf("b"));
  ASSERT_OK(Poll(*client));
  ASSERT_OK(Poll(*other));
  Revoke("client/a");
  EXPECT_THAT(Poll(*client), StatusIs(absl::StatusCode::kUnauthenticated,
                                      AllOf(HasSubstr("'client/a' was revoked on"), HasSubstr("ask the authority"))));
  EXPECT_OK(Poll(*other));
}

TEST_F(Tls, HeldPollOfARevokedClient_IsRefusedWhenItIsAnswered) {
  ASSERT_OK(StartServer());
  ASSERT_OK_AND_ASSIGN(const auto client, ClientOf("a"));
  Status answer;
  std::thread asks([&] { answer = client->Poll({.caller = {.session = 1}, .hold_ms = 3000, .told = true}).status(); });
  EXPECT_TRUE(Within(std::chrono::seconds(10), [&] {
    MutexLock lock(api_.mutex);
    return api_.polls > 0;
  }));
  Revoke("client/a");
  asks.join();
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("was revoked")));
}

TEST_F(Tls, CertificateThatEndsWhileItsConnectionIsOpen_IsRefused) {
  ASSERT_OK(Issue("client/short", "short", {}, 2));
  ASSERT_OK(StartServer());
  ASSERT_OK_AND_ASSIGN(const auto client, ClientOf("short"));
  EXPECT_THAT(client_words_.sentences(), Contains(HasSubstr("2 days left: renew the certificate of 'client/short'")));
  ASSERT_OK(Poll(*client));
  PassDays(3);
  const Status status = Poll(*client);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnauthenticated,
                               AllOf(HasSubstr("'client/short' expired 1 day ago"), HasSubstr("rivulet ca renew"))));
  EXPECT_THAT(client_words_.sentences(), Contains(HasSubstr("expired")));
}

TEST_F(Tls, ExpiredOrNotYetValidOrOfAnotherRole_IsRefused) {
  ASSERT_OK(StartServer());
  EXPECT_THAT(PollAs("server"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("of 'coordinator/localhost'; ask its operator")));
  EXPECT_THAT(server_words_.sentences(), Contains(HasSubstr("is not made to connect to others")));
  EXPECT_THAT(StartServer("a"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not made to serve")));
  PassDays(366);
  EXPECT_THAT(PollAs("a"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("expired 1 day ago; renew")));
  PassDays(-366 - 2);
  EXPECT_THAT(PollAs("a"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("set the clock")));
}

TEST_F(Tls, CoordinatorUnderAnotherHost_IsNotBelieved) {
  ASSERT_OK(Issue("coordinator/fl.example", "elsewhere", {"fl.example"}));
  ASSERT_OK(StartServer("elsewhere"));
  const Status status = PollAs("a");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr("is for fl.example and not for '127.0.0.1'"), HasSubstr("--host"))));
  ExpectOurWords(status);
}

TEST_F(Tls, RenewedClient_GoesOnUnderItsName) {
  ASSERT_OK(Issue("client/r", "r", {}, 40));
  ASSERT_OK(StartServer());
  ASSERT_OK_AND_ASSIGN(const auto client, ClientOf("r"));
  ASSERT_OK(Poll(*client));
  const std::string before = api_.caller.certificate_serial;
  PassDays(30);
  Renew("client/r", "r");
  ASSERT_OK(Poll(*client));
  EXPECT_EQ(api_.caller.name, "r");
  EXPECT_NE(api_.caller.certificate_serial, before);
  EXPECT_THAT(client_words_.sentences(), Contains(HasSubstr("'client/r' was replaced")));
  PassDays(20);  // the first one has ended
  EXPECT_OK(Poll(*client));
}

TEST_F(Tls, RenewedServer_ShowsItWithoutARestart) {
  ASSERT_OK(StartServer());
  const int port = server_->address().port;
  const std::string before = SerialOfServer(port);
  EXPECT_EQ(before, Load("server")->serial);
  Renew("coordinator/localhost", "server", {"localhost", "127.0.0.1"});
  EXPECT_TRUE(Within(std::chrono::seconds(20), [&] { return SerialOfServer(port) == Load("server")->serial; }));
  EXPECT_NE(SerialOfServer(port), before);
  EXPECT_OK(PollAs("a"));
}

TEST_F(Tls, CorruptFolder_LeavesTheLastGoodOneInForceAndIsTold) {
  ASSERT_OK(StartServer());
  WriteFile(Path("server/node.crt"), "not a certificate");
  EXPECT_TRUE(Within(std::chrono::seconds(20), [&] {
    EXPECT_OK(PollAs("a"));
    for (const std::string& sentence : server_words_.sentences())
      if (sentence.find("stay in force") != std::string::npos) return true;
    return false;
  }));
  std::filesystem::remove(Path("server/revoked.crl"));
  EXPECT_OK(PollAs("a"));
}

TEST_F(Tls, PlaintextOnOneSide_IsToldApart) {
  ASSERT_OK(StartServer());
  ASSERT_OK_AND_ASSIGN(const auto plain, GrpcClient::Create({.coordinator = server_->address(),
                                                             .credentials = InsecureCredentials(false)}));
  const Status status = Poll(*plain);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("give --tls DIR if it has certificates")));
  ExpectOurWords(status);
  ASSERT_OK_AND_ASSIGN(server_, GrpcServer::Start(api_, {.listen = {.host = "127.0.0.1", .port = 0},
                                                         .credentials = InsecureCredentials(false)}));
  const Status other = PollAs("a");
  EXPECT_THAT(other, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("it does not speak TLS")));
  ExpectOurWords(other);
  server_.reset();
}

TEST_F(Tls, CoordinatorThatComesBack_IsFoundAgain) {
  ASSERT_OK(StartServer());
  const int port = server_->address().port;
  ASSERT_OK_AND_ASSIGN(const auto client, ClientOf("a"));
  ASSERT_OK(Poll(*client));
  server_.reset();
  const Status gone = Poll(*client);
  EXPECT_THAT(gone, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot be reached")));
  ExpectOurWords(gone);
  EXPECT_THAT(Poll(*client), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nothing listens there")));
  ASSERT_OK(StartServer("server", port));
  // By one that waits between its tries, as a client does: nobody reads its socket meanwhile.
  EXPECT_TRUE(Within(std::chrono::seconds(10), [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    return Poll(*client).ok();
  }));
}

// Who folds for others, and who trains, is the authority's to say and nobody's own.
TEST_F(Tls, AggregatorsAreServedWhereTheyAreAdmittedAndActAsNothingElse) {
  ASSERT_OK(Issue("aggregator/north", "north", {"localhost"}));
  const auto poll_as = [&](const std::string& folder, Serves::Kind serves) -> Status {
    RIVULET_ASSIGN_OR_RETURN(const auto client, ClientOf(folder));
    return client->Poll({.caller = {.session = 1}, .serves = {serves}}).status();
  };
  const auto denied = [](const char* why) { return StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(why)); };
  ASSERT_OK(StartServer());
  EXPECT_THAT(poll_as("north", Serves::Kind::kNames), denied("only clients train here"));
  ASSERT_OK(StartServer("server", 0, true));
  EXPECT_OK(poll_as("north", Serves::Kind::kNames));
  EXPECT_EQ(api_.caller.name, "north");
  EXPECT_OK(poll_as("a", Serves::Kind::kItself));
  EXPECT_THAT(poll_as("a", Serves::Kind::kNames), denied("does not make it an aggregator"));
  EXPECT_THAT(poll_as("north", Serves::Kind::kItself), denied("only clients train"));
  EXPECT_THAT(poll_as("north", Serves::Kind::kAny), denied("no such site is admitted"));
  ASSERT_OK_AND_ASSIGN(const auto client, ClientOf("a"));
  EXPECT_THAT(client->Submit({.session = 1}, {.bytes = 3, .kind = Submission::Kind::kPartial}),
              denied("submits as a site of many clients"));
}

}  // namespace
}  // namespace rivulet::testing
