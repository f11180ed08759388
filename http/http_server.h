// What a browser or a scraper may ask of a process: pages, and streams of events while something goes on. One class for
// `dashboard`, `coordinator` and `simulate`; who has something to show registers a handler for its path.
//
// Nothing can be changed through it: GET and HEAD are answered, and nothing else. On loopback whoever sits at the
// machine reads; a token may be asked for there. Beyond loopback it speaks TLS 1.3 alone, and reads who has the token
// or, where there is none, a certificate of an operator. Pages of other sites cannot read it: names that lead here by
// somebody else's DNS are refused, and the content-security policy lets a page run and wear only what AllowInPages was
// told, and load pictures and feeds from here alone.
//
// Calls: Create Handle* HandleStream* AllowInPages Start Stop. Handlers are called on threads of the server, several at
// once, until Stop returns; a handler that blocks keeps one of kThreads busy. Streams take at most kStreams of them, so
// that pages are always answered, and a browser that reads nothing for five seconds is let go.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

struct HttpOptions {
  std::string address;            // HOST:PORT; "": nothing is served
  std::string token_file;         // whose first line is the token; "": none is asked for
  std::string tls;                // the folder of a node's certificate (certificates/kit.h); "": plaintext
  std::string lists_beside = {};  // as WatchOptions has it (certificates/watched_identity.h); no option of a command
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
  static constexpr size_t kThreads = 48, kStreams = 16;

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
  // Server-sent events (HTML, "Server-sent events"): a stream per caller. Null: none is given now.
  using StreamHandler = std::function<std::unique_ptr<HttpStream>(const HttpRequest& request)>;
  virtual void HandleStream(const std::string& path, StreamHandler handler) = 0;
  // What is said instead of a page: of an unknown address, to a caller that may not read.
  virtual void HandleErrors(std::function<std::string(const std::string& title, const std::string& sentence)> page) = 0;

  // The style sheet and the script that pages may hold, to the byte; without this call none. Before Start.
  virtual void AllowInPages(std::string_view style, std::string_view script) = 0;

  virtual void Start() = 0;
  // Ends streams and waits for handlers under way.
  virtual void Stop() = 0;
  // "http://127.0.0.1:8080/", with the port that was taken.
  virtual std::string url() const = 0;
  // What is wrong with the folder of --http-tls now, a sentence each.
  virtual std::vector<std::string> warnings() const = 0;
  // False: it has ended by itself, as the system gave it no more connections.
  virtual bool running() const = 0;
};

}  // namespace rivulet
