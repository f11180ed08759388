// HTTP server of a process: pages, and streams of events from a running process. One class for `dashboard`,
// `coordinator` and `simulate`; each source of pages registers a handler for its path.
//
// Pages change nothing: only GET and HEAD are answered for them. A server of calls (HandleCalls) takes other methods
// and bodies, below its registered prefixes and nowhere else. On loopback all users of the machine may read; a token
// can be required there. Beyond loopback it speaks TLS 1.3 alone, and a reader needs the token or, without one, an
// operator's certificate. Pages of other sites cannot read it. Host names that another party's DNS directs here are
// refused. The content-security policy lets a page run and style only the code given to AllowInPages, and load pictures
// and feeds from here alone.
//
// Data from an unauthenticated peer costs at most HttpLimits. A request that is malformed, has a body, names no host or
// two, or has trailing bytes is refused, and its connection closed.
//
// Calls: Create Handle* HandleStream* AllowInPages Start Stop. Handlers are called on kThreads threads of the server,
// several at once, until Stop returns. Streams have kStreams separate threads, so that pages are always answered.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "certificates/role.h"
#include "engine/base/status.h"

namespace rivulet {

// Limits on the cost of one peer. A deadline is absolute: it counts from the begin of the server's wait, even if a few
// bytes arrive often.
struct HttpLimits {
  size_t header_bytes = 64 << 10;       // of the request line and all fields together
  size_t target_bytes = 8 << 10;        // of the address in the request line
  size_t fields = 100;                  // of a header
  size_t connections = 512;             // at a time; others are closed at once
  size_t connections_of_address = 256;  // of one IPv4 address, or one IPv6 network of 64 bits
  std::chrono::milliseconds handshake = std::chrono::seconds(10);
  std::chrono::milliseconds header = std::chrono::seconds(10);       // with idle time before it
  std::chrono::milliseconds write = std::chrono::seconds(30);        // of one reply
  std::chrono::milliseconds stream_write = std::chrono::seconds(5);  // of one piece of a stream
  // Limits for calls; pages take no body.
  size_t body_bytes = 0;                                      // of one request
  size_t bodies_bytes = size_t{256} << 20;                    // of all requests that are being read or answered
  std::chrono::milliseconds body = std::chrono::seconds(30);  // from its first byte to its last
};

struct HttpOptions {
  std::string address;            // HOST:PORT; "": no server
  std::string token_file;         // its first line is the token; "": none is required
  std::string tls;                // folder of a node's certificate (certificates/kit.h); "": plaintext
  std::string lists_beside = {};  // as in WatchOptions (certificates/watched_identity.h); not an option of a command
  HttpLimits limits = {};         // no options of a command
  // No options either: the role of readers' certificates, and whether plaintext may be used beyond this machine.
  Role readers = Role::kOperator;
  bool plaintext_beyond_loopback = false;
};

struct HttpRequest {
  std::multimap<std::string, std::string> parameters;    // after '?', decoded
  std::string Parameter(const std::string& name) const;  // the first of this name; "": none
  int64_t Number(const std::string& name) const;         // of at most nine digits; 0: none
};

struct HttpReply {
  int status = 200;
  std::string content_type = "text/html; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside the server's own
};

// A request with a method, header fields and a body, as a program sends it.
struct HttpCallRequest {
  std::string method, path;                            // the path decoded, without parameters
  std::multimap<std::string, std::string> parameters;  // after '?', decoded
  std::map<std::string, std::string> fields;           // names in lower case; of several of a name the first
  std::string body;
  std::string Field(const std::string& name) const;  // "": none
};

// A reply that is sent to one caller piece by piece. Used by one thread.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // The next bytes; "": there were none within `patience`; nullopt: the end.
  virtual std::optional<std::string> Next(std::chrono::milliseconds patience) = 0;
};

class HttpServer {
 public:
  static constexpr int kThreads = 8, kStreams = 16;

  // False: this program was built without an HTTP library, and Create is UNIMPLEMENTED.
  static bool IsBuilt();

  // Binds the port. Usage errors: no address, or one beyond loopback without --http-tls. UNAVAILABLE: the port is
  // taken. FAILED_PRECONDITION: the token is shorter than 16 characters, or the folder is not a coordinator's. `tell`
  // receives messages about the certificate, on any thread.
  static StatusOr<std::unique_ptr<HttpServer>> Create(const HttpOptions& options,
                                                      std::function<void(const std::string& sentence)> tell);
  virtual ~HttpServer() = default;  // Stop

  using Handler = std::function<HttpReply(const HttpRequest& request)>;
  virtual void Handle(const std::string& path, Handler handler) = 0;
  // Handles all calls below `prefix` ("/v2": itself and paths with '/' after it), with any method. The handler is
  // called on a pages' thread and must not block. `reply` must be called once, on any thread, by the handler or later.
  // Call this before Start.
  using CallReply = std::function<void(HttpReply reply)>;
  using CallHandler = std::function<void(std::shared_ptr<const HttpCallRequest> request, CallReply reply)>;
  virtual void HandleCalls(const std::string& prefix, CallHandler handler) = 0;
  // Server-sent events (HTML, "Server-sent events"): a stream per caller. Null: there is none now.
  using StreamHandler = std::function<std::unique_ptr<HttpStream>(const HttpRequest& request)>;
  virtual void HandleStream(const std::string& path, StreamHandler handler) = 0;
  // The content of error pages, for unknown addresses and for callers that may not read.
  virtual void HandleErrors(std::function<std::string(const std::string& title, const std::string& sentence)> page) = 0;

  // The style sheet and the script that pages may have, byte for byte; by default none. Call it before Start.
  virtual void AllowInPages(std::string_view style, std::string_view script) = 0;

  virtual void Start() = 0;
  // Closes all connections at once, ends streams, and waits for handlers under way.
  virtual void Stop() = 0;
  // "http://127.0.0.1:8080/", with the actual port.
  virtual std::string url() const = 0;
  // Present faults of the folder of --http-tls, a sentence each.
  virtual std::vector<std::string> warnings() const = 0;
  // False: it has ended, because the system gave it no more connections.
  virtual bool running() const = 0;
};

}  // namespace rivulet
