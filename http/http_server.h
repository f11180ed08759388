// HTTP server of a process: pages, and streams of events from a running process. One class for `dashboard`,
// `coordinator` and `simulate`; each source of pages registers a handler for its path.
//
// Pages change nothing: only GET and HEAD are answered for them. A server of calls (HandleCalls) takes other methods
// and bodies, below the prefixes that it registered and nowhere else. On loopback all users of the machine may read; a
// token can be required there. Beyond loopback it speaks TLS 1.3 alone, and a reader needs the token or, without one,
// an operator's certificate. Pages of other sites cannot read it. Host names that another party's DNS points here are
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

// How much one peer may cost. A deadline is absolute: it counts from when the server begins to wait, however often a
// few bytes come.
struct HttpLimits {
  size_t header_bytes = 64 << 10;       // of the request line and all fields together
  size_t target_bytes = 8 << 10;        // of the address in the request line
  size_t fields = 100;                  // of a header
  size_t connections = 512;             // at a time; more are closed at once
  size_t connections_of_address = 256;  // of one IPv4 address, or one IPv6 network of 64 bits
  std::chrono::milliseconds handshake = std::chrono::seconds(10);
  std::chrono::milliseconds header = std::chrono::seconds(10);       // idle time before it included
  std::chrono::milliseconds write = std::chrono::seconds(30);        // of one reply
  std::chrono::milliseconds stream_write = std::chrono::seconds(5);  // of one piece of a stream
  // Of calls; pages take no body.
  size_t body_bytes = 0;                                      // of one request
  size_t bodies_bytes = size_t{256} << 20;                    // of all requests that are being read or answered
  std::chrono::milliseconds body = std::chrono::seconds(30);  // from its first byte to its last
};

struct HttpOptions {
  std::string address;            // HOST:PORT; "": nothing is served
  std::string token_file;         // whose first line is the token; "": none is asked for
  std::string tls;                // the folder of a node's certificate (certificates/kit.h); "": plaintext
  std::string lists_beside = {};  // as WatchOptions has it (certificates/watched_identity.h); no option of a command
  HttpLimits limits = {};         // no options of a command
  // Also no options: the role whose certificates admit readers, and whether plaintext may go beyond this machine.
  Role readers = Role::kOperator;
  bool plaintext_beyond_loopback = false;
};

struct HttpRequest {
  std::multimap<std::string, std::string> parameters;    // after '?', decoded
  std::string Parameter(const std::string& name) const;  // the first; "": none
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

// What is sent to one caller, piece by piece. Used by one thread.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // The next bytes; "": there were none within `patience`; nothing: this is the end.
  virtual std::optional<std::string> Next(std::chrono::milliseconds patience) = 0;
};

class HttpServer {
 public:
  static constexpr int kThreads = 8, kStreams = 16;

  // False: this program was built without a library for HTTP, and Create is UNIMPLEMENTED.
  static bool IsBuilt();

  // Takes the port. Usage errors: no address, or one beyond loopback without --http-tls. UNAVAILABLE: the port is
  // taken. FAILED_PRECONDITION: the token is shorter than 16 characters, or the folder is not a coordinator's. `tell`
  // hears what concerns the certificate, on any thread.
  static StatusOr<std::unique_ptr<HttpServer>> Create(const HttpOptions& options,
                                                      std::function<void(const std::string& sentence)> tell);
  virtual ~HttpServer() = default;  // Stop

  using Handler = std::function<HttpReply(const HttpRequest& request)>;
  virtual void Handle(const std::string& path, Handler handler) = 0;
  // Everything below `prefix` ("/v2": itself and what follows '/'), with any method. The handler is called on a thread
  // of the pages' and must not block; it, or what it hands the request to, calls `reply` once, on any thread. Before
  // Start.
  using CallReply = std::function<void(HttpReply reply)>;
  using CallHandler = std::function<void(std::shared_ptr<const HttpCallRequest> request, CallReply reply)>;
  virtual void HandleCalls(const std::string& prefix, CallHandler handler) = 0;
  // Server-sent events (HTML, "Server-sent events"): a stream per caller. Null: none is given now.
  using StreamHandler = std::function<std::unique_ptr<HttpStream>(const HttpRequest& request)>;
  virtual void HandleStream(const std::string& path, StreamHandler handler) = 0;
  // What is said instead of a page: of an unknown address, to a caller that may not read.
  virtual void HandleErrors(std::function<std::string(const std::string& title, const std::string& sentence)> page) = 0;

  // The style sheet and the script that pages may hold, to the byte; without this call none. Before Start.
  virtual void AllowInPages(std::string_view style, std::string_view script) = 0;

  virtual void Start() = 0;
  // Closes all connections at once, ends streams, and waits for handlers under way.
  virtual void Stop() = 0;
  // "http://127.0.0.1:8080/", with the port that was taken.
  virtual std::string url() const = 0;
  // What is wrong with the folder of --http-tls now, a sentence each.
  virtual std::vector<std::string> warnings() const = 0;
  // False: it has ended by itself, as the system gave it no more connections.
  virtual bool running() const = 0;
};

}  // namespace rivulet
