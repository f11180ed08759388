#include "rpc/credentials.h"

#include <atomic>
#include <charconv>

#include "rpc/security.h"

namespace rivulet {
namespace {

class PlainServer final : public ServerSecurity {
 public:
  std::shared_ptr<grpc::ServerCredentials> credentials() override { return grpc::InsecureServerCredentials(); }
  StatusOr<PeerIdentity> Identify(const grpc::ServerContextBase&) override { return PeerIdentity{}; }
  void LogRefusal(const std::string&) override {}
};

class PlainChannel final : public ChannelSecurity {
 public:
  std::shared_ptr<grpc::ChannelCredentials> credentials() override { return grpc::InsecureChannelCredentials(); }
  bool Stale(bool) override { return false; }
  void Answered() override { answered_ = true; }
  std::string Refusal() override {
    if (answered_) return "";
    return "it closed the connection before it answered anything, as one does that speaks TLS; give --tls DIR if it "
           "has certificates";
  }

 private:
  std::atomic<bool> answered_ = false;
};

class Insecure final : public TransportCredentials {
 public:
  explicit Insecure(bool beyond_loopback) : beyond_loopback_(beyond_loopback) {}
  // Plaintext is right on one machine and wrong beyond it; the latter is possible, but must be requested.
  Status Check(const NetworkAddress& address) const override {
    if (beyond_loopback_ || address.IsLoopback()) return absl::OkStatus();
    return FailedPrecondition(
        "{} is not a loopback address, and without TLS others on the network can read and change the messages; give "
        "--insecure twice to accept that",
        address.ToString());
  }

  StatusOr<std::unique_ptr<ServerSecurity>> ForServer() const override { return std::make_unique<PlainServer>(); }
  std::unique_ptr<ChannelSecurity> ForChannel(const NetworkAddress&) const override {
    return std::make_unique<PlainChannel>();
  }

 private:
  bool beyond_loopback_;
};

}  // namespace

bool IsLoopbackPeer(std::string_view peer) {
  for (const std::string_view known :
       {"ipv4:127.", "ipv6:[::1]:", "ipv6:%5B::1%5D:", "ipv6:[::ffff:127.", "ipv6:%5B::ffff:127."}) {
    if (peer.starts_with(known)) return true;
  }
  return false;
}

bool NetworkAddress::IsLoopback() const {
  if (host == "localhost" || host == "::1") return true;
  if (!host.starts_with("127.")) return false;
  return host.find_first_not_of("0123456789.") == std::string::npos;  // not "127.example.org"
}

std::string NetworkAddress::ToString() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

StatusOr<NetworkAddress> ParseAddress(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return InvalidArgument("'{}' is not an address HOST:PORT: {}", text, why);
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("it has no port");
  std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (host.find_first_not_of("0123456789abcdefABCDEF:.") != std::string_view::npos) return bad("a bad IPv6 address");
  } else if (host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") !=
             std::string_view::npos) {
    return bad("the host is a name, an IPv4 address or an IPv6 address in brackets");
  }
  if (host.empty()) return bad("it has no host");
  NetworkAddress address{.host = std::string(host)};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port < 0 || address.port > 65535) {
    return bad("the port is a number from 0 to 65535");
  }
  return address;
}

std::shared_ptr<const TransportCredentials> InsecureCredentials(bool beyond_loopback) {
  return std::make_shared<Insecure>(beyond_loopback);
}

}  // namespace rivulet
