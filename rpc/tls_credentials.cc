// Mutual TLS over gRPC's experimental TLS credentials. OpenSSL does the handshake, which proves that a peer has its
// certificate's key. Whether to trust the certificate is decided by certificates/verify.h alone, on both sides: it has
// a sentence for each reason, and one answer for handshakes and calls.
#include <fcntl.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "certificates/watched_identity.h"
#include "engine/base/check.h"
#include "engine/base/display_name.h"
#include "engine/base/mutex.h"
#include "engine/base/rate_limited_log.h"
#include "rpc/credentials.h"
#include "rpc/revoked_peers.h"
#include "rpc/security.h"

namespace rivulet {
namespace {

using ::grpc::experimental::ExternalCertificateVerifier;
using ::grpc::experimental::TlsCustomVerificationCheckRequest;

// gRPC has no setting for the lowest version. This one lists only ciphers of TLS 1.2, and one of them needs a shared
// secret that no peer has. So 1.2 finds no cipher, and 1.3 has its own. Read once, by the first TLS connection.
void AllowTls13Only() {
  static std::once_flag once;
  std::call_once(once, [] { setenv("GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-CHACHA20-POLY1305", 1); });
}

grpc::Status Refused(const Status& status) { return {grpc::StatusCode::UNAUTHENTICATED, std::string(Message(status))}; }

struct Peer {
  CertificateName name;
  std::string serial;
  Validity validity;
};

// Verified peers. A verification checks a signature, a tenth of a millisecond, and every call needs it. So a valid
// certificate stays valid under the same authority and list until it expires. Thread-safe.
class Peers {
 public:
  explicit Peers(std::shared_ptr<WatchedIdentity> identity) : identity_(std::move(identity)) {}

  StatusOr<Peer> Verify(const std::string& pem) {
    const std::shared_ptr<const NodeIdentity> identity = identity_->Current();
    const int64_t now = identity_->now();
    {
      MutexLock lock(mutex_);
      if (under_ != identity) known_.clear();
      under_ = identity;
      const auto found = known_.find(pem);
      if (found != known_.end() && now <= found->second.validity.until && now >= found->second.validity.from) {
        return found->second;
      }
    }
    RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                             VerifyPeer(pem, *identity, CertificatePurpose::kConnect, now));
    RIVULET_CHECK(certificate.name.has_value());  // VerifyPeer refuses others
    Peer peer{*certificate.name, certificate.serial, certificate.validity};
    constexpr size_t kMost = 100'000;  // of a kilobyte each
    MutexLock lock(mutex_);
    if (known_.size() >= kMost) known_.clear();
    if (under_ == identity) known_[pem] = peer;
    return peer;
  }

 private:
  const std::shared_ptr<WatchedIdentity> identity_;
  Mutex mutex_;
  std::shared_ptr<const NodeIdentity> under_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, Peer> known_ GUARDED_BY(mutex_);  // by certificate, in PEM
};

class VerifiesClients final : public ExternalCertificateVerifier {
 public:
  VerifiesClients(std::shared_ptr<Peers> peers, std::shared_ptr<RateLimitedLog> teller,
                  std::shared_ptr<RevokedPeers> revoked)
      : peers_(std::move(peers)), teller_(std::move(teller)), revoked_(std::move(revoked)) {}
  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    const grpc::string_ref pem = request->peer_cert();
    const StatusOr<Peer> peer = peers_->Verify(std::string(pem.data(), pem.size()));
    if (!peer.ok()) {
      teller_->Tell(fmt::format("refused a connection: {}", Message(peer.status())));
      revoked_->Note(peer.status());
    }
    *sync_status = peer.ok() ? grpc::Status::OK : Refused(peer.status());
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<Peers> peers_;
  const std::shared_ptr<RateLimitedLog> teller_;
  const std::shared_ptr<RevokedPeers> revoked_;
};

// The server's certificate and key, at a path that gRPC's watcher reads: only the watcher can replace a certificate,
// and it reads files. The file is in memory, because the key must not be on a disk twice, and is replaced in one step.
// Its content was checked before, so a half-finished renewal is never shown.
class ShownFile {
 public:
  Status Put(const std::string& bytes) {
    const int fd = memfd_create("rivulet-certificate", MFD_CLOEXEC);
    if (fd < 0) return Internal("no file could be made in memory for the certificate: {}", std::strerror(errno));
    if (write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      close(fd);
      return ResourceExhausted("no {} bytes of memory for the certificate", bytes.size());
    }
    if (fd_ < 0) {
      fd_ = fd;
    } else {
      dup3(fd, fd_, O_CLOEXEC);
      close(fd);
    }
    return absl::OkStatus();
  }
  // It is emptied and not closed: gRPC may read the path again after its server has gone, and must not find another
  // file that the process has opened since.
  ~ShownFile() {
    if (fd_ >= 0) [[maybe_unused]]
      const Status emptied = Put("");
  }
  ShownFile() = default;
  ShownFile(const ShownFile&) = delete;
  ShownFile& operator=(const ShownFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_ = -1;
};

class TlsServer final : public ServerSecurity {
 public:
  TlsServer(std::shared_ptr<WatchedIdentity> identity, std::shared_ptr<RateLimitedLog> teller)
      : identity_(std::move(identity)), teller_(std::move(teller)), peers_(std::make_shared<Peers>(identity_)) {}
  ~TlsServer() override {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      closed_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
  }

  Status Start() {
    const std::shared_ptr<const NodeIdentity> identity = identity_->Current();
    if (!ServesOthers(identity->name.role)) {
      return FailedPrecondition(
          "the certificate of '{}' is not made to serve others; use the folder of a coordinator ('rivulet ca kit "
          "coordinator/HOST')",
          identity->name.ToString());
    }
    RIVULET_RETURN_IF_ERROR(shown_.Put(Bundle(*identity)));
    if (access(shown_.path().c_str(), R_OK) != 0)
      return FailedPrecondition("'{}' cannot be read; TLS needs /proc mounted", shown_.path());
    thread_ = std::thread([this, bundle = Bundle(*identity)] { Follow(bundle); });
    return absl::OkStatus();
  }

  std::shared_ptr<grpc::ServerCredentials> credentials() override {
    constexpr unsigned kLookEverySeconds = 1;
    grpc::experimental::TlsServerCredentialsOptions options(
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(shown_.path(), shown_.path(),
                                                                             kLookEverySeconds));
    options.watch_identity_key_cert_pairs();
    // A peer must show a certificate and prove its key; the verifier checks the certificate.
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
    options.set_certificate_verifier(ExternalCertificateVerifier::Create<VerifiesClients>(peers_, teller_, revoked_));
    options.set_check_call_host(false);
    return grpc::experimental::TlsServerCredentials(options);
  }

  StatusOr<PeerIdentity> Identify(const grpc::ServerContextBase& context) override {
    StatusOr<Peer> peer = PeerOf(context);
    if (!peer.ok()) {
      LogRefusal(fmt::format("refused a call: {}", Message(peer.status())));
      return peer.status();
    }
    return PeerIdentity{std::move(peer->name), std::move(peer->serial), peer->validity.until};
  }
  void LogRefusal(const std::string& sentence) override { teller_->Tell(sentence); }
  void OnRevoked(std::function<void(const RevokedPeer& peer)> on_revoked) override {
    MutexLock lock(revoked_mutex_);
    on_revoked_ = std::move(on_revoked);
  }

 private:
  static std::string Bundle(const NodeIdentity& identity) { return identity.certificate_pem + identity.key_pem; }

  StatusOr<Peer> PeerOf(const grpc::ServerContextBase& context) {
    const std::vector<grpc::string_ref> shown =
        context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (shown.size() != 1) return absl::UnauthenticatedError("the connection shows no certificate");
    StatusOr<Peer> peer = peers_->Verify(std::string(shown[0].data(), shown[0].size()));
    if (!peer.ok()) {
      revoked_->Note(peer.status());
      return absl::UnauthenticatedError(peer.status().message());
    }
    return peer;
  }

  // On this object's thread: a handshake or a call must not wait for the listener.
  void ReportRevoked() {
    MutexLock lock(revoked_mutex_);
    for (const RevokedPeer& peer : revoked_->Take()) {
      if (on_revoked_) on_revoked_(peer);
    }
  }

  // A separate thread, because the shown certificate must be new before the next connection.
  void Follow(std::string bundle) {
    constexpr std::chrono::seconds kLookEvery{1};
    MutexLock lock(mutex_);
    while (!closing_) {
      closed_.WaitFor(mutex_, kLookEvery);
      mutex_.Unlock();
      ReportRevoked();
      mutex_.Lock();
      const std::shared_ptr<const NodeIdentity> identity = identity_->Look();
      std::string fresh = Bundle(*identity);
      if (fresh == bundle || closing_) continue;
      if (const Status put = shown_.Put(fresh); put.ok()) {
        bundle = std::move(fresh);
      } else {
        teller_->Tell(fmt::format("the new certificate cannot be shown: {}", Message(put)));
      }
    }
  }

  const std::shared_ptr<WatchedIdentity> identity_;
  const std::shared_ptr<RateLimitedLog> teller_;
  const std::shared_ptr<Peers> peers_;
  const std::shared_ptr<RevokedPeers> revoked_ =
      std::make_shared<RevokedPeers>();  // gRPC keeps its verifier as long as it likes
  Mutex revoked_mutex_;
  std::function<void(const RevokedPeer&)> on_revoked_ GUARDED_BY(revoked_mutex_);
  ShownFile shown_;  // written by Start and then by thread_
  Mutex mutex_;
  CondVar closed_;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// State shared by a client's verifier, which gRPC may keep, and its channel.
struct Handshakes {
  Mutex mutex;
  std::string refusal GUARDED_BY(mutex);    // of the last handshake
  bool in_doubt GUARDED_BY(mutex) = false;  // this side accepted the other one, which has not answered since
};

class VerifiesServer final : public ExternalCertificateVerifier {
 public:
  VerifiesServer(std::shared_ptr<WatchedIdentity> watched, std::shared_ptr<const NodeIdentity> identity,
                 std::string host, std::shared_ptr<Handshakes> handshakes)
      : watched_(std::move(watched)),
        identity_(std::move(identity)),
        host_(std::move(host)),
        handshakes_(std::move(handshakes)) {}
  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    const Status status = Believe(ToStd({request->peer_cert().data(), request->peer_cert().size()}));
    MutexLock lock(handshakes_->mutex);
    handshakes_->refusal = Message(status);
    handshakes_->in_doubt = status.ok();
    *sync_status = status.ok() ? grpc::Status::OK : Refused(status);
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest*) override {}

 private:
  Status Believe(std::string_view pem) {
    RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                             VerifyPeer(pem, *identity_, CertificatePurpose::kServe, watched_->now()));
    return VerifyHost(certificate, host_);
  }

  const std::shared_ptr<WatchedIdentity> watched_;
  const std::shared_ptr<const NodeIdentity> identity_;
  const std::string host_;
  const std::shared_ptr<Handshakes> handshakes_;
};

class TlsChannel final : public ChannelSecurity {
 public:
  TlsChannel(std::shared_ptr<WatchedIdentity> watched, const NetworkAddress& server)
      : watched_(std::move(watched)), identity_(watched_->Current()), host_(server.host) {}

  std::shared_ptr<grpc::ChannelCredentials> credentials() override {
    grpc::experimental::TlsChannelCredentialsOptions options;
    options.set_certificate_provider(std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
        identity_->authority_pem,
        std::vector<grpc::experimental::IdentityKeyCertPair>{{identity_->key_pem, identity_->certificate_pem}}));
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    options.set_verify_server_certs(false);  // VerifiesServer does, with a reason for each refusal
    options.set_certificate_verifier(
        ExternalCertificateVerifier::Create<VerifiesServer>(watched_, identity_, host_, handshakes_));
    options.set_check_call_host(false);
    return grpc::experimental::TlsCredentials(options);
  }
  bool Stale(bool at_once) override { return (at_once ? watched_->Look() : watched_->Current()) != identity_; }
  void Answered() override {
    MutexLock lock(handshakes_->mutex);
    handshakes_->in_doubt = false;
  }
  // In TLS 1.3 a client's handshake ends before the server has checked its certificate: the client sees a refusal only
  // as a connection that is closed without an answer.
  std::string Refusal() override {
    MutexLock lock(handshakes_->mutex);
    if (!handshakes_->refusal.empty()) return handshakes_->refusal;
    if (!handshakes_->in_doubt) return "";
    return fmt::format(
        "it closed the connection because it does not admit the certificate {} of '{}'; ask its operator for the "
        "reason in its log",
        identity_->serial, identity_->name.ToString());
  }

 private:
  const std::shared_ptr<WatchedIdentity> watched_;
  const std::shared_ptr<const NodeIdentity> identity_;  // of this channel
  const std::string host_;
  const std::shared_ptr<Handshakes> handshakes_ = std::make_shared<Handshakes>();
};

class Tls final : public TransportCredentials {
 public:
  Tls(std::shared_ptr<WatchedIdentity> identity, std::function<void(const std::string&)> tell)
      : identity_(std::move(identity)), teller_(std::make_shared<RateLimitedLog>(std::move(tell))) {}
  Status Check(const NetworkAddress&) const override { return absl::OkStatus(); }
  StatusOr<std::unique_ptr<ServerSecurity>> ForServer() const override {
    AllowTls13Only();
    auto server = std::make_unique<TlsServer>(identity_, teller_);
    RIVULET_RETURN_IF_ERROR(server->Start());
    return server;
  }
  std::unique_ptr<ChannelSecurity> ForChannel(const NetworkAddress& server) const override {
    AllowTls13Only();
    return std::make_unique<TlsChannel>(identity_, server);
  }

 private:
  const std::shared_ptr<WatchedIdentity> identity_;
  const std::shared_ptr<RateLimitedLog> teller_;
};

}  // namespace

std::shared_ptr<const TransportCredentials> TlsCredentials(std::shared_ptr<WatchedIdentity> identity,
                                                           std::function<void(const std::string&)> tell) {
  return std::make_shared<Tls>(std::move(identity), std::move(tell));
}

}  // namespace rivulet
