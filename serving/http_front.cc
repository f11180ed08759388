#include "serving/http_front.h"

#include <algorithm>
#include <iterator>

#include "engine/base/json.h"
#include "engine/base/shown_text.h"
#include "serving/grpc_front.h"

namespace rivulet {
namespace {

// The largest ratio of a value's text to its raw bytes: "-1.2345678e-12," is four times a float32's.
constexpr size_t kTextOfRaw = 5;
constexpr size_t kCallRoom = 1 << 20;

int HttpStatus(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

}  // namespace

HttpReply ErrorReply(const Status& status) {
  const Json error = {{"error", Message(status)}};
  return {.status = HttpStatus(status.code()), .content_type = "application/json", .body = error.Dump()};
}

HttpReply TakesPost(const std::string& path) {
  HttpReply reply = ErrorReply(InvalidArgument("'{}' takes POST", Shortened(path)));
  reply.status = 405;
  reply.headers = {{"Allow", "POST"}};
  return reply;
}

int64_t MostJsonValues(const ModelServer& server) {
  constexpr int64_t kBesideValues = 10'000;
  return server.BatchJsonValues() + kBesideValues;
}

HttpReply JsonReply(std::string body) { return {.content_type = "application/json", .body = std::move(body)}; }

void PrepareHttp(const ModelServer& server, HttpOptions& options) {
  options.readers = kServeRole;
  options.limits.body_bytes = static_cast<size_t>(server.BatchBytes()) * kTextOfRaw + kCallRoom;
  options.limits.bodies_bytes = std::max(options.limits.bodies_bytes, 4 * options.limits.body_bytes);
}

void ServeCalls(ModelServer& server, HttpServer& http) {
  http.HandleCalls("/v2", [&server](std::shared_ptr<const HttpCallRequest> request, HttpServer::CallReply reply) {
    AnswerInference(server, std::move(request), std::move(reply));
  });
  http.HandleCalls("/v1", [&server](std::shared_ptr<const HttpCallRequest> request, HttpServer::CallReply reply) {
    AnswerPrediction(server, std::move(request), std::move(reply));
  });
  http.HandleCalls("/metrics", [&server](std::shared_ptr<const HttpCallRequest>, HttpServer::CallReply reply) {
    reply(MetricsReply(server));
  });
}

// Prometheus's text format. Names have only letters, digits, '.', '_' and '-', which need no escapes.
HttpReply MetricsReply(const ModelServer& server) {
  std::string text;
  const auto out = std::back_inserter(text);
  const auto all = server.Counts();
  const auto of = [](const ModelServer::LabelCounts& counts) {
    return fmt::format("model=\"{}\",label=\"{}\",version=\"{}\"", counts.name, counts.label, counts.version);
  };
  fmt::format_to(out,
                 "# HELP rivulet_serve_requests_total Requests by their end.\n"
                 "# TYPE rivulet_serve_requests_total counter\n");
  for (const auto& counts : all) {
    fmt::format_to(out, "rivulet_serve_requests_total{{{},end=\"answered\"}} {}\n", of(counts),
                   counts.counts->answered.load());
    fmt::format_to(out, "rivulet_serve_requests_total{{{},end=\"failed\"}} {}\n", of(counts),
                   counts.counts->failed.load());
  }
  fmt::format_to(out,
                 "# HELP rivulet_serve_percent Share of the requests without version or label, for the canary.\n"
                 "# TYPE rivulet_serve_percent gauge\n");
  for (const auto& counts : all)
    if (counts.label == kCanaryLabel)
      fmt::format_to(out, "rivulet_serve_percent{{{}}} {}\n", of(counts), counts.percent);
  fmt::format_to(out,
                 "# HELP rivulet_serve_examples_total Examples that were answered.\n"
                 "# TYPE rivulet_serve_examples_total counter\n");
  for (const auto& counts : all)
    fmt::format_to(out, "rivulet_serve_examples_total{{{}}} {}\n", of(counts), counts.counts->examples.load());
  fmt::format_to(out,
                 "# HELP rivulet_serve_seconds Time of an answered request in the server.\n"
                 "# TYPE rivulet_serve_seconds histogram\n");
  for (const auto& counts : all) {
    int64_t below = 0;
    for (size_t i = 0; i < ModelCounts::kBounds.size(); ++i) {
      below += counts.counts->by_latency[i].load();
      fmt::format_to(out, "rivulet_serve_seconds_bucket{{{},le=\"{}\"}} {}\n", of(counts),
                     static_cast<double>(ModelCounts::kBounds[i]) * 1e-6, below);
    }
    below += counts.counts->by_latency.back().load();
    fmt::format_to(out, "rivulet_serve_seconds_bucket{{{},le=\"+Inf\"}} {}\n", of(counts), below);
    fmt::format_to(out, "rivulet_serve_seconds_sum{{{}}} {}\n", of(counts),
                   static_cast<double>(counts.counts->answered_ns.load()) * 1e-9);
    fmt::format_to(out, "rivulet_serve_seconds_count{{{}}} {}\n", of(counts), below);
  }
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(text)};
}

}  // namespace rivulet
