#include "http/beast_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <set>
#include <thread>

#include "http/http_connection.h"
#include "http/tls_context.h"

namespace rivulet {
namespace {

// One peer may have many of these addresses, so they count as one: an IPv6 network of 64 bits.
std::string PeerKey(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  const asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_string();
  auto bytes = v6.to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return asio::ip::address_v6(bytes).to_string();
}

class BeastServer final : public HttpServer {
 public:
  BeastServer(NetworkAddress address, const HttpLimits& limits, std::unique_ptr<Admission> admission,
              std::shared_ptr<WatchedIdentity> identity)
      : address_(std::move(address)), identity_(std::move(identity)) {
    service_.limits = limits;
    service_.admission = std::move(admission);
  }
  ~BeastServer() override { Stop(); }

  Status Listen() {
    if (identity_ != nullptr) {
      tls_.emplace(asio::ssl::context::tls_server);
      if (!PrepareTls(*tls_->native_handle(), identity_.get()))
        return FailedPrecondition("TLS cannot be set up with the certificate of --http-tls");
    }
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(address_.host, std::to_string(address_.port), tcp::resolver::passive, error);
    for (const auto& entry : found) {
      if (ListenAt(entry.endpoint())) {
        address_.port = acceptor_.local_endpoint(error).port();
        return absl::OkStatus();
      }
    }
    if (address_.port == 0) return Unavailable("no port of {} could be taken", address_.host);
    return Unavailable("port {} of {} could not be taken; is another dashboard there? Choose one with --http HOST:PORT",
                       address_.port, address_.host);
  }

  void Handle(const std::string& path, Handler handler) override { service_.pages[path] = std::move(handler); }
  void HandleStream(const std::string& path, StreamHandler handler) override {
    service_.streams[path] = std::move(handler);
  }
  void HandleCalls(const std::string& prefix, CallHandler handler) override {
    service_.calls[prefix] = std::move(handler);
  }
  void HandleErrors(std::function<std::string(const std::string&, const std::string&)> page) override {
    service_.error_page = std::move(page);
  }
  void AllowInPages(std::string_view style, std::string_view script) override {
    service_.headers = HeadersOfPages(style, script);
  }

  void Start() override {
    running_ = true;
    asio::co_spawn(io_, Accept(), asio::detached);
    thread_ = std::thread([this] {
      // Memory may be exhausted within one connection; the others continue.
      while (true) {
        try {
          io_.run();
          break;
        } catch (...) {
        }
      }
      running_ = false;
    });
  }

  void Stop() override {
    service_.stopping = true;
    asio::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      for (OpenConnection* connection : open_) connection->Close();
    });
    if (thread_.joinable()) thread_.join();
    service_.page_threads.reset();  // before the objects that their last jobs release
    service_.stream_threads.reset();
  }

  std::string url() const override {
    return fmt::format("{}://{}/", identity_ == nullptr ? "http" : "https", address_.ToString());
  }
  bool running() const override { return running_; }
  std::vector<std::string> warnings() const override {
    return identity_ == nullptr ? std::vector<std::string>() : identity_->Warnings();
  }

 private:
  // Without SO_REUSEPORT: two processes would share the port, and each get some of the requests.
  bool ListenAt(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(SOMAXCONN, error);
    if (!error) return true;
    acceptor_.close(error);
    return false;
  }

  asio::awaitable<void> Accept() {
    asio::steady_timer pause(io_);
    while (!service_.stopping) {
      error_code error;
      tcp::socket socket(io_);
      co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (service_.stopping || error == asio::error::operation_aborted) co_return;
      if (error) {  // no descriptor, or no memory, is left now
        pause.expires_after(milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      const tcp::endpoint peer = socket.remote_endpoint(error);
      if (error) continue;
      std::string key = PeerKey(peer.address());
      size_t& of_peer = of_peers_[key];
      if (open_.size() >= service_.limits.connections || of_peer >= service_.limits.connections_of_address) {
        if (of_peer == 0) of_peers_.erase(key);
        continue;  // the socket is closed here
      }
      ++of_peer;
      socket.set_option(tcp::no_delay(true), error);  // a small event is sent at once
      if (tls_) {
        using Tls = HttpConnection<asio::ssl::stream<tcp::socket>>;
        const auto connection = std::make_shared<Tls>(service_, std::move(socket), *tls_);
        asio::co_spawn(io_, Hold(connection, key), asio::detached);
      } else {
        const auto connection = std::make_shared<HttpConnection<tcp::socket>>(service_, std::move(socket));
        asio::co_spawn(io_, Hold(connection, key), asio::detached);
      }
    }
  }

  template <typename Kind>
  asio::awaitable<void> Hold(std::shared_ptr<Kind> connection, std::string key) {
    struct Registration {
      BeastServer& server;
      OpenConnection* connection;
      const std::string key;
      Registration(BeastServer& of, OpenConnection* what, std::string from)
          : server(of), connection(what), key(std::move(from)) {
        server.open_.insert(connection);
      }
      ~Registration() {
        server.open_.erase(connection);
        const auto of_peer = server.of_peers_.find(key);
        if (--of_peer->second == 0) server.of_peers_.erase(of_peer);
      }
    } registration(*this, connection.get(), std::move(key));
    co_await connection->Serve();
  }

  NetworkAddress address_;
  const std::shared_ptr<WatchedIdentity> identity_;  // null: plaintext
  HttpService service_;
  asio::io_context io_{1};
  std::optional<asio::ssl::context> tls_;
  tcp::acceptor acceptor_{io_};
  // Used on the server's thread.
  std::set<OpenConnection*> open_;
  std::map<std::string, size_t> of_peers_;  // connections by PeerKey
  std::atomic<bool> running_ = false;
  std::thread thread_;
};

}  // namespace

StatusOr<std::unique_ptr<HttpServer>> ListenByBeast(NetworkAddress address, const HttpLimits& limits,
                                                    std::unique_ptr<Admission> admission,
                                                    std::shared_ptr<WatchedIdentity> identity) {
  auto server = std::make_unique<BeastServer>(std::move(address), limits, std::move(admission), std::move(identity));
  RIVULET_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace rivulet
