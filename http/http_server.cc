#include "http/http_server.h"

#include <httplib.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <atomic>
#include <thread>

#include "certificates/openssl.h"
#include "certificates/watched_identity.h"
#include "engine/base/file_system.h"
#include "engine/base/sha256.h"
#include "engine/base/shown_text.h"
#include "engine/base/usage_error.h"
#include "http/same_origin.h"
#include "rpc/credentials.h"

namespace rivulet {
namespace {

// What a page may do in the browser: show itself, and load its icon and feed from here. Nothing is fetched from
// elsewhere, no style and no script counts but those named by their digests, and no other page may frame it.
std::string ContentSecurityPolicy(const std::string& style_source, const std::string& script_source) {
  return fmt::format(
      "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; img-src 'self'; form-action 'self'; "
      "base-uri 'none'; frame-ancestors 'none'",
      style_source, script_source);
}

// 'sha256-…' (Content Security Policy Level 3, 2.3.1), of an element with this text.
std::string SourceOf(std::string_view text) {
  const Digest digest = Sha256Of(text);
  std::string base64(4 * ((digest.bytes.size() + 2) / 3) + 1, '\0');  // and a NUL that the library writes
  base64.resize(static_cast<size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()),
                                                    reinterpret_cast<const unsigned char*>(digest.bytes.data()),
                                                    static_cast<int>(digest.bytes.size()))));
  return fmt::format("'sha256-{}'", base64);
}

httplib::Headers HeadersOfPages(const std::string& policy) {
  return {{"Content-Security-Policy", policy},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cache-Control", "no-store"}};
}
constexpr size_t kLeastToken = 16;
constexpr const char* kCookie = "rivulet_session";
// After so long without a word a stream says that it is there, which is how a browser that has gone is noticed.
constexpr std::chrono::seconds kStillHere{10};

bool SameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

StatusOr<std::string> NewSession() {
  unsigned char bytes[32];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return OpenSslError("draw a session");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

StatusOr<std::string> ReadToken(const std::string& file) {
  if (file.empty()) return std::string();
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(file));
  const std::string_view token = std::string_view(bytes).substr(0, bytes.find_first_of("\r\n"));
  if (token.size() < kLeastToken) {
    return FailedPrecondition(
        "the token in '{}' has {} characters, which can be guessed; give it {} or more, such as those of 'openssl rand "
        "-hex 32'",
        file, token.size(), kLeastToken);
  }
  return std::string(token);
}

// "a=b; c=d"
std::string CookieOf(const httplib::Request& request) {
  const std::string cookies = request.get_header_value("Cookie");
  for (size_t at = 0; at < cookies.size();) {
    const size_t end = std::min(cookies.find(';', at), cookies.size());
    const std::string_view one = std::string_view(cookies).substr(at, end - at);
    const size_t equals = one.find('=');
    if (equals != one.npos && one.substr(0, equals) == kCookie) return std::string(one.substr(equals + 1));
    at = end + 1;
    while (at < cookies.size() && cookies[at] == ' ') ++at;
  }
  return "";
}

// A certificate each handshake, as the folder has it then.
int ShowCertificate(SSL* ssl, void* identity) {
  const std::shared_ptr<const NodeIdentity> now = static_cast<WatchedIdentity*>(identity)->Current();
  BioHandle certificate = BioOver(now->certificate_pem), key = BioOver(now->key_pem);
  X509Handle x509(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr));
  KeyHandle private_key(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
  return x509 != nullptr && private_key != nullptr && SSL_use_certificate(ssl, x509.get()) == 1 &&
         SSL_use_PrivateKey(ssl, private_key.get()) == 1;
}

// Whose certificate it is, is asked of every request (Operator); at the handshake any will do, and none.
int TakeAnyCertificate(int, X509_STORE_CTX*) { return 1; }

bool PrepareTls(SSL_CTX& context, WatchedIdentity* identity) {
  SSL_CTX_set_cert_cb(&context, ShowCertificate, identity);
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER, TakeAnyCertificate);
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET);
  return SSL_CTX_set_min_proto_version(&context, TLS1_3_VERSION) == 1;
}

class CppHttpServer final : public HttpServer {
 public:
  CppHttpServer(NetworkAddress address, std::string token, std::string session,
                std::unique_ptr<WatchedIdentity> identity)
      : address_(std::move(address)),
        token_(std::move(token)),
        session_(std::move(session)),
        identity_(std::move(identity)),
        server_(identity_ == nullptr ? std::make_unique<httplib::Server>()
                                     : std::make_unique<httplib::SSLServer>(
                                           [this](SSL_CTX& context) { return PrepareTls(context, identity_.get()); })) {
    // A connection takes a thread for as long as it is open. Browsers open some to say nothing on, and these must not
    // keep a page waiting: they are given a second.
    server_->new_task_queue = [] { return new httplib::ThreadPool(kThreads); };  // whose owner the library is
    server_->set_keep_alive_timeout(1);
    server_->set_read_timeout(2);
    server_->set_write_timeout(5);
    server_->set_tcp_nodelay(true);  // a small event is not held back until the one before is acknowledged
    // The library's own choice lets two processes share a port, and each would get some of the requests.
    server_->set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_->set_payload_max_length(0);
    server_->set_default_headers(HeadersOfPages(ContentSecurityPolicy("'none'", "'none'")));
    server_->set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return Admits(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                       : httplib::Server::HandlerResponse::Handled;
    });
    server_->set_error_handler([this](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty())
        Answer(response, response.status, "No such page", "There is nothing under this address.");
    });
    server_->set_exception_handler(
        [this](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
          Answer(response, 500, "That did not work", "The server has no memory left for this page.");
        });
  }
  ~CppHttpServer() override { Stop(); }

  Status Bind() {
    if (!server_->is_valid()) return FailedPrecondition("TLS cannot be set up with the certificate of --http-tls");
    if (address_.port == 0) {
      address_.port = server_->bind_to_any_port(address_.host);
      if (address_.port < 0) return Unavailable("no port of {} could be taken", address_.host);
    } else if (!server_->bind_to_port(address_.host, address_.port)) {
      return Unavailable(
          "port {} of {} could not be taken; is another dashboard there? Choose one with --http HOST:PORT",
          address_.port, address_.host);
    }
    return absl::OkStatus();
  }

  void Handle(const std::string& path, Handler handler) override {
    server_->Get(path, [handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
      const HttpReply reply = handler(RequestOf(request));
      response.status = reply.status;
      response.set_content(reply.body, reply.content_type);
    });
  }

  void HandleStream(const std::string& path, StreamHandler handler) override {
    server_->Get(path, [this, handler = std::move(handler)](const httplib::Request& request,
                                                            httplib::Response& response) {
      if (streams_.fetch_add(1) >= kStreams) {
        --streams_;
        return Answer(response, 503, "Too many look on", "Close another tab that shows this run, and try again.");
      }
      std::shared_ptr<HttpStream> stream = handler(RequestOf(request));
      if (stream == nullptr) {
        --streams_;
        return Answer(response, 404, "Nothing goes on", "There is no feed of this.");
      }
      response.set_chunked_content_provider(
          "text/event-stream",
          [this, stream = std::move(stream), spoke = std::chrono::steady_clock::now()](
              size_t, httplib::DataSink& sink) mutable {
            std::optional<std::string> next = stopping_ ? std::nullopt : stream->Next(std::chrono::milliseconds(500));
            if (!next) {
              sink.done();
              return true;
            }
            const auto now = std::chrono::steady_clock::now();
            if (next->empty() && now - spoke < kStillHere) return true;
            if (next->empty()) *next = ": still here\n\n";
            spoke = now;
            return sink.write(next->data(), next->size());
          },
          [this](bool) { --streams_; });
    });
  }

  void HandleErrors(std::function<std::string(const std::string&, const std::string&)> page) override {
    page_ = std::move(page);
  }

  void AllowInPages(std::string_view style, std::string_view script) override {
    server_->set_default_headers(HeadersOfPages(ContentSecurityPolicy(SourceOf(style), SourceOf(script))));
  }

  void Start() override {
    running_ = true;
    thread_ = std::thread([this] {
      (void)server_->listen_after_bind();
      running_ = false;
    });
  }

  void Stop() override {
    stopping_ = true;
    // The library's stop is lost on a server that has not yet begun to listen.
    while (running_ && !server_->is_running()) std::this_thread::yield();
    server_->stop();
    if (thread_.joinable()) thread_.join();
  }

  std::string url() const override {
    return fmt::format("{}://{}/", identity_ == nullptr ? "http" : "https", address_.ToString());
  }
  bool running() const override { return running_; }
  std::vector<std::string> warnings() const override {
    return identity_ == nullptr ? std::vector<std::string>() : identity_->Warnings();
  }

 private:
  static HttpRequest RequestOf(const httplib::Request& request) {
    return {{request.params.begin(), request.params.end()}};
  }

  void Answer(httplib::Response& response, int status, const std::string& title, const std::string& sentence) const {
    response.status = status;
    response.set_content(page_ ? page_(title, sentence) : title + ". " + sentence + "\n",
                         page_ ? "text/html; charset=utf-8" : "text/plain; charset=utf-8");
  }

  // A page of another site that has its own name lead here would read what is served to this machine: on loopback only
  // our names are answered. Elsewhere it would need a token or a certificate, which no browser gives to another name.
  bool IsOurName(const std::string& host) const {
    if (!address_.IsLoopback()) return true;
    const std::string name = host.substr(0, host.ends_with(']') ? host.size() : host.rfind(':'));
    return name == "127.0.0.1" || name == "localhost" || name == "[::1]" || name == address_.host;
  }

  // What is wrong with the caller's certificate; "": it is an operator's.
  std::string Operator(const httplib::Request& request) const {
    X509Handle peer(request.ssl == nullptr ? nullptr : SSL_get1_peer_certificate(request.ssl));
    if (peer == nullptr) return "This is for operators, who show a certificate of 'rivulet ca issue operator/NAME'.";
    BioHandle pem = EmptyBio();
    if (PEM_write_bio_X509(pem.get(), peer.get()) != 1) return "The certificate cannot be read.";
    const StatusOr<Certificate> certificate =
        VerifyPeer(TextOf(pem.get()), *identity_->Current(), CertificatePurpose::kConnect, identity_->now());
    if (!certificate.ok()) return std::string(Message(certificate.status()));
    if (!certificate->name || certificate->name->role != Role::kOperator)
      return fmt::format("This is for operators, and not for '{}'.",
                         certificate->name ? certificate->name->ToString() : certificate->subject);
    return "";
  }

  bool Admits(const httplib::Request& request, httplib::Response& response) const {
    if (request.method != "GET" && request.method != "HEAD") {
      Answer(response, 405, "Not served", "Pages can only be read.");
      return false;
    }
    if (!IsOurName(request.get_header_value("Host"))) {
      Answer(response, 403, "Not served", "This page answers to 127.0.0.1 and localhost alone.");
      return false;
    }
    if (token_.empty()) {
      const std::string fault = identity_ == nullptr ? "" : Operator(request);
      if (!fault.empty()) Answer(response, 403, "Not served", fault);
      return fault.empty();
    }
    if (SameSecret(CookieOf(request), session_)) return true;
    const std::string bearer = request.get_header_value("Authorization");
    if (bearer.starts_with("Bearer ") && SameSecret(std::string_view(bearer).substr(7), token_)) return true;
    if (SameSecret(request.get_param_value("token"), token_)) {
      // The token leaves the address at once, and with it the browser's history; a session takes its place.
      response.status = 303;
      std::multimap<std::string, std::string> rest(request.params.begin(), request.params.end());
      rest.erase("token");
      response.set_header("Location", SameOriginLocation(request.path, rest));
      response.set_header("Set-Cookie", fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/{}", kCookie, session_,
                                                    identity_ == nullptr ? "" : "; Secure"));
      return false;
    }
    response.set_header("WWW-Authenticate", "Bearer");
    Answer(response, 401, "Who is there?",
           "Add ?token=…, or &token=… behind other parameters, to the address: the token of --http-token.");
    return false;
  }

  NetworkAddress address_;
  const std::string token_, session_;
  const std::unique_ptr<WatchedIdentity> identity_;  // null: plaintext
  const std::unique_ptr<httplib::Server> server_;
  std::function<std::string(const std::string&, const std::string&)> page_;
  std::atomic<bool> stopping_ = false, running_ = false;
  std::atomic<size_t> streams_ = 0;
  std::thread thread_;
};

}  // namespace

bool HttpServer::IsBuilt() { return true; }

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(const HttpOptions& options,
                                                         std::function<void(const std::string& sentence)> tell) {
  StatusOr<NetworkAddress> address = ParseAddress(options.address);
  if (!address.ok()) return AsUsageError(Annotate(address.status(), "--http"));
  if (!address->IsLoopback() && options.tls.empty()) {
    return UsageError(
        "--http serves this machine alone, 127.0.0.1, [::1] or localhost, not '{}': from elsewhere, ssh -L brings a "
        "port over, or --http-tls DIR lets whoever has the token or an operator's certificate read",
        Shortened(address->host));
  }
  RIVULET_ASSIGN_OR_RETURN(std::string token, ReadToken(options.token_file));
  RIVULET_ASSIGN_OR_RETURN(std::string session, NewSession());
  std::unique_ptr<WatchedIdentity> identity;
  if (!options.tls.empty()) {
    RIVULET_ASSIGN_OR_RETURN(identity,
                             WatchedIdentity::Open(FileSystem::Default(), Clock::System(), options.tls,
                                                   {.tell = std::move(tell), .lists_beside = options.lists_beside}));
    if (!ServesOthers(identity->Current()->name.role)) {
      return FailedPrecondition(
          "'{}' is the folder of '{}', which serves nobody; --http-tls takes that of 'rivulet ca kit coordinator/HOST'",
          options.tls, identity->Current()->name.ToString());
    }
  }
  auto server =
      std::make_unique<CppHttpServer>(*std::move(address), std::move(token), std::move(session), std::move(identity));
  RIVULET_RETURN_IF_ERROR(server->Bind());
  return server;
}

}  // namespace rivulet
