// Handlers and admission of an HTTP server, shared by all its connections. Included by beast_server.cc alone.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/executor.h"
#include "engine/base/json.h"
#include "http/admission.h"
#include "http/http_server.h"
#include "http/page_policy.h"

namespace rivulet {

// Headers of a reply beside its content.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// Handlers and limits, shared by all connections.
struct HttpService {
  HttpLimits limits;
  std::unique_ptr<Admission> admission;
  std::map<std::string, HttpServer::Handler> pages;
  std::map<std::string, HttpServer::StreamHandler> streams;
  std::map<std::string, HttpServer::CallHandler> calls;  // by prefix
  HttpHeaders headers = HeadersOfPages("", "");
  std::function<std::string(const std::string&, const std::string&)> error_page;
  std::unique_ptr<Executor> page_threads = ThreadExecutor("pages", HttpServer::kThreads);
  std::unique_ptr<Executor> stream_threads = ThreadExecutor("feeds", HttpServer::kStreams);
  size_t open_streams = 0;  // used on the server's thread
  size_t body_bytes = 0;    // likewise: of calls under way
  std::atomic<bool> stopping = false;

  // The handler of calls below a path; null: none.
  const HttpServer::CallHandler* CallsOf(const std::string& path) const {
    for (const auto& [prefix, handler] : calls)
      if (path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/')) return &handler;
    return nullptr;
  }
  // A server of calls answers in JSON, as its callers expect.
  HttpReply Said(const HttpRefusal& refusal) const {
    if (!calls.empty()) {
      const Json error = {{"error", refusal.sentence}};
      return {.status = refusal.status, .content_type = "application/json", .body = error.Dump()};
    }
    if (error_page) return {.status = refusal.status, .body = error_page(refusal.title, refusal.sentence)};
    return {.status = refusal.status,
            .content_type = "text/plain; charset=utf-8",
            .body = refusal.title + ". " + refusal.sentence + "\n"};
  }
  // Runs on a pool's thread; throws nothing.
  HttpReply PageOf(const HttpServer::Handler& handler, const HttpRequest& request) const {
    try {
      return handler(request);
    } catch (...) {
      return {.status = 500, .content_type = "text/plain; charset=utf-8", .body = "no memory is left for this page\n"};
    }
  }
};

}  // namespace rivulet
