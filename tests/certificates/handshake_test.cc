// TLS handshakes in memory: OpenSSL's own verdict on these certificates and lists, without other Rivulet
// code.
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "tests/certificates/test_authority.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

using ContextHandle = OpenSslHandle<SSL_CTX, SSL_CTX_free>;
using ConnectionHandle = OpenSslHandle<SSL, SSL_free>;

struct Outcome {
  bool done = false;
  std::string error;  // the first reason that either end gave
  std::string version;
  std::string peer;  // who the server saw
};

class Handshakes : public AuthorityTest {
 protected:
  void SetUp() override {
    ASSERT_OK(Init());
    ASSERT_OK(Issue("coordinator/fl.example", "server", {"fl.example"}));
    ASSERT_OK(Issue("client/a", "client"));
  }

  // With `list`, what it revokes is refused.
  ContextHandle ContextOf(const std::string& node, bool server, int64_t at, const std::string& list = "") {
    ContextHandle context(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
    SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
    const Certificate certificate = ReadCertificate(ContentOf(Path(node + "/node.crt")), node).value();
    const KeyHandle key = ReadKey(ContentOf(Path(node + "/node.key")), node).value();
    EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate.x509.get()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
    const Certificate authority = ReadCertificate(ContentOf(Path("ca/authority.crt")), "ca").value();
    X509_STORE* store = SSL_CTX_get_cert_store(context.get());
    X509_STORE_add_cert(store, authority.x509.get());
    X509_VERIFY_PARAM_set_time(SSL_CTX_get0_param(context.get()), static_cast<time_t>(at));
    if (!list.empty()) {
      const CrlHandle crl(PEM_read_bio_X509_CRL(BioOver(list).get(), nullptr, nullptr, nullptr));
      X509_STORE_add_crl(store, crl.get());
      X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context.get()), X509_V_FLAG_CRL_CHECK);
    }
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    return context;
  }

  Outcome Shake(SSL_CTX* server_context, SSL_CTX* client_context, const char* host = "fl.example") {
    const ConnectionHandle server(SSL_new(server_context)), client(SSL_new(client_context));
    BIO *one = nullptr, *other = nullptr;
    BIO_new_bio_pair(&one, 0, &other, 0);
    SSL_set_bio(server.get(), one, one);
    SSL_set_bio(client.get(), other, other);
    SSL_set_accept_state(server.get());
    SSL_set_connect_state(client.get());
    SSL_set1_host(client.get(), host);
    Outcome outcome;
    bool server_done = false, client_done = false;
    const auto step = [&](SSL* end, bool& done) {
      if (done || !outcome.error.empty()) return;
      const int result = SSL_do_handshake(end);
      done = result == 1;
      const int error = SSL_get_error(end, result);
      if (done || error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return;
      const long verified = SSL_get_verify_result(end);
      outcome.error =
          verified != X509_V_OK ? X509_verify_cert_error_string(verified) : ERR_reason_error_string(ERR_get_error());
    };
    for (int round = 0; round < 10 && outcome.error.empty() && !(server_done && client_done); ++round) {
      step(client.get(), client_done);
      step(server.get(), server_done);
    }
    ERR_clear_error();
    outcome.done = server_done && client_done;
    outcome.version = SSL_get_version(server.get());
    const X509Handle peer(SSL_get1_peer_certificate(server.get()));
    if (outcome.done && peer != nullptr) {
      X509Handle copy(X509_dup(peer.get()));
      outcome.peer = CertificateOf(std::move(copy), "the peer's").value().name->Uri();
    }
    return outcome;
  }
  Outcome Shake(const std::string& client, const char* host = "fl.example", const std::string& list = "") {
    return Shake(ContextOf("server", true, now(), list).get(), ContextOf(client, false, now()).get(), host);
  }
};

TEST_F(Handshakes, BothWaysUnderTls13_WorkAndNameTheClient) {
  const Outcome outcome = Shake("client");
  EXPECT_TRUE(outcome.done) << outcome.error;
  EXPECT_EQ(outcome.version, "TLSv1.3");
  EXPECT_EQ(outcome.peer, "rivulet:client/a");
}

TEST_F(Handshakes, Tls12_IsRefused) {
  const ContextHandle server = ContextOf("server", true, now()), client = ContextOf("client", false, now());
  SSL_CTX_set_min_proto_version(client.get(), TLS1_2_VERSION);
  SSL_CTX_set_max_proto_version(client.get(), TLS1_2_VERSION);
  const Outcome outcome = Shake(server.get(), client.get());
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.error, HasSubstr("unsupported protocol"));
}

TEST_F(Handshakes, ClientWithoutACertificate_IsRefused) {
  const ContextHandle server = ContextOf("server", true, now()), client(SSL_CTX_new(TLS_client_method()));
  const Outcome outcome = Shake(server.get(), client.get());
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.error, HasSubstr("peer did not return a certificate"));
}

TEST_F(Handshakes, RevokedClient_IsRefusedByTheNewList) {
  ASSERT_OK_AND_ASSIGN(auto authority, Open());
  EXPECT_TRUE(Shake("client", "fl.example", authority->revocation_list()).done);
  ASSERT_OK(authority->RevokeName(Name("client/a"), RevocationReason::kKeyCompromise));
  const Outcome outcome = Shake("client", "fl.example", authority->revocation_list());
  EXPECT_FALSE(outcome.done);
  EXPECT_EQ(outcome.error, "certificate revoked");
}

TEST_F(Handshakes, ExpiredClient_IsRefused) {
  PassDays(366);
  // The server's own is renewed, so that it is the client's that is refused.
  ASSERT_OK(Issue("coordinator/fl.example", "renewed", {"fl.example"}));
  const Outcome outcome = Shake(ContextOf("renewed", true, now()).get(), ContextOf("client", false, now()).get());
  EXPECT_FALSE(outcome.done);
  EXPECT_EQ(outcome.error, "certificate has expired");
}

TEST_F(Handshakes, ClientOfAnotherAuthority_IsRefused) {
  ASSERT_OK(Init("other"));
  ASSERT_OK(Issue("client/a", "stranger", {}, std::nullopt, "other"));
  const Outcome outcome = Shake("stranger");
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.error, HasSubstr("certificate"));
}

TEST_F(Handshakes, ServerUnderAnotherHost_IsRefused) {
  const Outcome outcome = Shake("client", "evil.example");
  EXPECT_FALSE(outcome.done);
  EXPECT_EQ(outcome.error, "hostname mismatch");
}

TEST_F(Handshakes, ClientThatServes_IsRefused) {
  const Outcome outcome = Shake(ContextOf("client", true, now()).get(), ContextOf("client", false, now()).get(), "a");
  EXPECT_FALSE(outcome.done);
}

TEST_F(Handshakes, CoordinatorThatConnects_IsRefused) {
  const Outcome outcome = Shake("server");
  EXPECT_FALSE(outcome.done);
  EXPECT_THAT(outcome.error, HasSubstr("purpose"));
}

}  // namespace
}  // namespace rivulet::testing
