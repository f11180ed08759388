// One connection of an HTTP server: requests and replies in turn, within limits. Included by beast_server.cc alone.
#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <limits>
#include <optional>
#include <string>

#include "http/deadline.h"
#include "http/http_service.h"

namespace rivulet {

namespace beast = boost::beast;
namespace http = boost::beast::http;

// After so long without data a stream sends a comment, so that a closed browser is noticed.
inline constexpr std::chrono::seconds kStillHere{10};
inline constexpr milliseconds kStreamPatience{250};  // of one Next, and so the longest wait of Stop for it
inline constexpr milliseconds kFarewell{1000};       // for a refused peer to read the reason

inline const HttpRefusal kNoSuchPage{404, "No such page", "There is nothing under this address."};
inline const HttpRefusal kNoFeed{404, "No run is in progress", "There is no feed of this."};
inline const HttpRefusal kUnfinished{400, "Not understood", "The body of this request ends before its length."};
inline const HttpRefusal kSlowBody{408, "Too slow", "The body of this request did not come within its time."};
inline const HttpRefusal kNoRoom{503, "Busy", "Too many bodies are being read; try again later."};
inline const HttpRefusal kTooManyFeeds{503, "Too many look on",
                                       "Close another tab that shows this run, and try again."};

struct OpenConnection {
  virtual ~OpenConnection() = default;
  virtual void Close() = 0;
};

// One connection of `Stream`, a socket or TLS over one. Used on the server's thread alone.
template <typename Stream>
class HttpConnection final : public OpenConnection {
 public:
  static constexpr bool kTls = !std::is_same_v<Stream, tcp::socket>;

  template <typename... More>
  HttpConnection(HttpService& service, tcp::socket socket, More&... more)
      : service_(service), stream_(std::move(socket), more...), deadline_(lowest()) {}
  void Close() override {
    error_code ignored;
    lowest().close(ignored);
  }

  // Serves until the connection ends. The caller keeps this alive.
  asio::awaitable<void> Serve() {
    error_code error;
    if constexpr (kTls) {
      deadline_.Set(service_.limits.handshake);
      co_await stream_.async_handshake(asio::ssl::stream_base::server,
                                       asio::redirect_error(asio::use_awaitable, error));
      deadline_.Clear();
      if (error) co_return Close();
    }
    bool goes_on = true;
    while (goes_on && !service_.stopping) goes_on = co_await ServeOne();
    co_await SayFarewell();
  }

 private:
  using Request = http::request<http::empty_body>;

  tcp::socket& lowest() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }
  SSL* ssl() {
    if constexpr (kTls) {
      return stream_.native_handle();
    } else {
      return nullptr;
    }
  }

  // One request and its reply. False: the connection must be closed.
  asio::awaitable<bool> ServeOne() {
    error_code error;
    // Room for the header alone, so data that a peer sends ahead is not kept.
    beast::flat_buffer buffer(service_.limits.header_bytes);
    http::request_parser<http::empty_body> parser;
    parser.header_limit(static_cast<uint32_t>(service_.limits.header_bytes));
    parser.body_limit(std::numeric_limits<uint64_t>::max());  // lengths are checked below
    deadline_.Set(service_.limits.header);
    co_await http::async_read_header(stream_, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    deadline_.Clear();
    if (error) {
      const std::optional<HttpRefusal> unread = FaultOfBytes(error);
      if (!unread) co_return false;
      co_await Refuse(*unread);
      co_return false;
    }
    const Request& request = parser.get();
    std::optional<HttpRefusal> fault = FaultOf(parser);
    const HttpTarget target = TargetOf({request.target().data(), fault ? 0 : request.target().size()});
    const HttpServer::CallHandler* const calls = service_.CallsOf(target.path);
    if (!fault && calls == nullptr) fault = FaultOfBody(parser, buffer.size());
    if (fault) {
      co_await Refuse(*fault);
      co_return false;
    }
    const std::string method(request.method_string());
    const HttpCall call{.method = method,
                        .target = target,
                        .header = [&request](const char* name) { return std::string(request[name]); },
                        .ssl = ssl(),
                        .of_program = calls != nullptr};
    const std::optional<HttpRefusal> refused = service_.admission->Check(call);
    if (calls != nullptr && !refused) co_return co_await ServeCall(*calls, target, buffer, parser);
    const bool head = method == "HEAD", keep_alive = request.keep_alive() && (head || method == "GET");
    HttpReply reply;
    if (refused) {
      reply = service_.Said(*refused);
      co_return co_await Write(reply, refused->headers, head, keep_alive);
    }
    const HttpRequest asked{target.parameters};
    const HttpHeaders none;
    if (const auto page = service_.pages.find(target.path); page != service_.pages.end()) {
      const std::function<HttpReply()> work = [&] { return service_.PageOf(page->second, asked); };
      reply = co_await RunOn(*service_.page_threads, work);
      co_return co_await Write(reply, none, head, keep_alive);
    }
    if (const auto feed = service_.streams.find(target.path); feed != service_.streams.end() && !head) {
      co_await Feed(feed->second, asked);
      co_return false;
    }
    reply = service_.Said(kNoSuchPage);
    co_return co_await Write(reply, none, head, keep_alive);
  }

  // The refusal of bytes that are no request; nullopt if the peer has gone or was too slow.
  static std::optional<HttpRefusal> FaultOfBytes(error_code error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return HttpRefusal{431, "Too long", "The header of this request is longer than is read here."};
    const bool of_parser = error.category() == http::make_error_code(http::error::bad_target).category();
    if (!of_parser || error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
    return HttpRefusal{400, "Not understood", "This is no request that is answered here."};
  }

  // The refusal of a malformed request, before its meaning is considered. The parser itself refuses a length beside
  // Transfer-Encoding, and two lengths.
  std::optional<HttpRefusal> FaultOf(const http::request_parser<http::empty_body>& parser) const {
    const Request& request = parser.get();
    const auto fields = static_cast<size_t>(std::distance(request.begin(), request.end()));
    if (fields > service_.limits.fields) return HttpRefusal{431, "Too many", "This request has too many fields."};
    if (request.target().size() > service_.limits.target_bytes)
      return HttpRefusal{414, "Too long", "This address is longer than is read here."};
    if (request.count(http::field::host) > 1 || (request.version() >= 11 && request.count(http::field::host) == 0))
      return HttpRefusal{400, "Not understood", "A request names one host."};
    return std::nullopt;
  }

  // The same for a page's request.
  static std::optional<HttpRefusal> FaultOfBody(const http::request_parser<http::empty_body>& parser,
                                                size_t bytes_ahead) {
    const Request& request = parser.get();
    if (parser.chunked() || parser.content_length().value_or(0) > 0 ||
        request.count(http::field::transfer_encoding) > 0)
      return HttpRefusal{400, "Not understood", "A page takes no body."};
    if (bytes_ahead > 0) return HttpRefusal{400, "Not understood", "There is more than one request."};
    return std::nullopt;
  }

  // One call: its body, within limits, then its handler. A body that is too long is refused before any of it is read,
  // and all bodies together have a limit too.
  asio::awaitable<bool> ServeCall(const HttpServer::CallHandler& handler, const HttpTarget& target,
                                  beast::flat_buffer& buffer, http::request_parser<http::empty_body>& header) {
    const HttpLimits& limits = service_.limits;
    const Request& head = header.get();
    const HttpRefusal long_body{
        413, "Too long",
        fmt::format("The body of this request is longer than {} bytes, the most that are read here.",
                    limits.body_bytes)};
    if (header.content_length().value_or(0) > limits.body_bytes) {
      co_await Refuse(long_body);
      co_return false;
    }
    const size_t taken = header.chunked() ? limits.body_bytes : header.content_length().value_or(0);
    if (service_.body_bytes + taken > limits.bodies_bytes) {
      co_await Refuse(kNoRoom);
      co_return false;
    }
    struct Room {
      size_t& held;
      const size_t bytes;
      Room(size_t& of, size_t taken) : held(of), bytes(taken) { held += bytes; }
      ~Room() { held -= bytes; }
    } room(service_.body_bytes, taken);
    auto request = std::make_shared<HttpCallRequest>();
    request->method = std::string(head.method_string());
    request->path = target.path;
    request->parameters = target.parameters;
    for (const auto& field : head) {
      std::string name(field.name_string());
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request->fields.emplace(std::move(name), std::string(field.value()));
    }
    error_code error;
    deadline_.Set(limits.body, Deadline::Then::kCancel);
    if (beast::iequals(head[http::field::expect], "100-continue")) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(stream_, asio::buffer(kContinue), asio::redirect_error(asio::use_awaitable, error));
    }
    http::request_parser<http::string_body> parser(std::move(header));
    parser.body_limit(limits.body_bytes);
    if (!error) co_await http::async_read(stream_, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    deadline_.Clear();
    if (deadline_.passed()) {
      co_await Refuse(kSlowBody);
      co_return false;
    }
    if (error == http::error::body_limit) {
      co_await Refuse(long_body);
      co_return false;
    }
    if (error == http::error::partial_message) {  // the peer sends no more, but may still read
      co_await Refuse(kUnfinished);
      co_return false;
    }
    if (!error && buffer.size() > 0) error = http::error::bad_chunk_extension;  // another request was sent ahead
    if (error) {
      if (const std::optional<HttpRefusal> unread = FaultOfBytes(error)) co_await Refuse(*unread);
      co_return false;
    }
    request->body = std::move(parser.get().body());
    const bool keep_alive = parser.get().keep_alive(), of_head = request->method == "HEAD";
    const std::function<void(HttpServer::CallReply)> work = [&handler, request](HttpServer::CallReply reply) {
      handler(request, std::move(reply));
    };
    const HttpReply reply = co_await RunUntilDone<HttpReply>(*service_.page_threads, work);
    co_return co_await Write(reply, reply.headers, of_head, keep_alive);
  }

  asio::awaitable<void> Refuse(const HttpRefusal& refusal) {
    const HttpReply reply = service_.Said(refusal);
    co_await Write(reply, refusal.headers, false, false);
  }

  template <typename Message>
  void AddHeaders(Message& message, const HttpHeaders& more) const {
    for (const auto& [name, value] : service_.headers) message.set(name, value);
    for (const auto& [name, value] : more) message.set(name, value);
  }

  // False: the connection must be closed.
  asio::awaitable<bool> Write(const HttpReply& reply, const HttpHeaders& more, bool head, bool keep_alive) {
    error_code error;
    http::response<http::string_body> message(static_cast<http::status>(reply.status), 11);
    AddHeaders(message, more);
    message.set(http::field::content_type, reply.content_type);
    message.keep_alive(keep_alive);
    message.content_length(reply.body.size());
    if (!head) message.body() = reply.body;
    http::response_serializer<http::string_body> serializer(message);
    deadline_.Set(service_.limits.write);
    if (head) {
      co_await http::async_write_header(stream_, serializer, asio::redirect_error(asio::use_awaitable, error));
    } else {
      co_await http::async_write(stream_, serializer, asio::redirect_error(asio::use_awaitable, error));
    }
    deadline_.Clear();
    co_return !error && keep_alive;
  }

  // Sends a stream of events, until it or its reader ends. Its length is unknown, so the connection ends with it.
  asio::awaitable<void> Feed(const HttpServer::StreamHandler& handler, const HttpRequest& request) {
    if (service_.open_streams >= size_t{HttpServer::kStreams}) {
      co_await Refuse(kTooManyFeeds);
      co_return;
    }
    struct Place {
      size_t& open;
      explicit Place(size_t& count) : open(count) { ++open; }
      ~Place() { --open; }
    } place(service_.open_streams);
    const std::function<std::shared_ptr<HttpStream>()> open = [&] { return handler(request); };
    const std::shared_ptr<HttpStream> stream = co_await RunOn(*service_.stream_threads, open);
    if (stream == nullptr) {
      co_await Refuse(kNoFeed);
      co_return;
    }
    const std::function<std::optional<std::string>()> look = [&]() -> std::optional<std::string> {
      return service_.stopping ? std::nullopt : stream->Next(kStreamPatience);
    };
    error_code error;
    const HttpHeaders none;
    http::response<http::empty_body> message(http::status::ok, 11);
    AddHeaders(message, none);
    message.set(http::field::content_type, "text/event-stream");
    message.keep_alive(false);
    http::response_serializer<http::empty_body> serializer(message);
    deadline_.Set(service_.limits.stream_write);
    co_await http::async_write_header(stream_, serializer, asio::redirect_error(asio::use_awaitable, error));
    auto spoke = steady_clock::now();
    while (!error) {
      deadline_.Clear();
      std::optional<std::string> next = co_await RunOn(*service_.stream_threads, look);
      if (!next) break;
      const auto now = steady_clock::now();
      if (next->empty() && now - spoke < kStillHere) continue;
      if (next->empty()) *next = ": still here\n\n";
      spoke = now;
      deadline_.Set(service_.limits.stream_write);
      co_await asio::async_write(stream_, asio::buffer(*next), asio::redirect_error(asio::use_awaitable, error));
    }
    deadline_.Clear();
  }

  // Closes so that the peer can read the last reply while it still sends: data of one more second is discarded.
  asio::awaitable<void> SayFarewell() {
    error_code error;
    deadline_.Set(kFarewell);
    if constexpr (kTls) co_await stream_.async_shutdown(asio::redirect_error(asio::use_awaitable, error));
    lowest().shutdown(tcp::socket::shutdown_send, error);
    std::array<char, 4096> thrown_away;
    while (!error && !service_.stopping) {
      co_await lowest().async_read_some(asio::buffer(thrown_away), asio::redirect_error(asio::use_awaitable, error));
    }
    deadline_.Clear();
    Close();
  }

  HttpService& service_;
  Stream stream_;
  Deadline deadline_;
};

}  // namespace rivulet
