#include "pages/serve_pages.h"

#include <charconv>

#include "coordinator/history/history.h"
#include "pages/downloads.h"
#include "pages/live_run.h"
#include "pages/pages.h"

namespace rivulet {
namespace {

HttpReply ReplyOf(StatusOr<std::string> page) {
  if (page.ok()) return HttpReply{.body = *std::move(page)};
  return HttpReply{.status = absl::IsNotFound(page.status()) ? 404 : 400,
                   .body = ErrorPage("That did not work", Message(page.status()))};
}

StatusOr<PlacedHistory> OpenPlaced(const std::vector<std::string>& files, size_t at) {
  PlacedHistory placed{.prefix = at == 0 ? "" : fmt::format("{}/", at + 1), .history = nullptr};
  RIVULET_ASSIGN_OR_RETURN(placed.history, History::Open(files[at], History::Access::kReadOnly));
  return placed;
}

// "RUN", "2/RUN": the history's index, and the run's id in it. No run's id has a slash.
std::pair<size_t, std::string> PlaceOf(const std::string& text, size_t histories) {
  const size_t slash = text.find('/');
  size_t place = 1;
  if (slash == text.npos || slash > 3) return {0, text};
  const auto [end, error] = std::from_chars(text.data(), text.data() + slash, place);
  if (error != std::errc() || end != text.data() + slash || place < 1 || place > histories) return {0, text};
  return {place - 1, text.substr(slash + 1)};
}

using MakeRunPage = std::function<StatusOr<std::string>(const PlacedRun& run, const HttpRequest& request)>;

// The page of the run that the parameter `name` selects.
HttpServer::Handler OfRun(const std::vector<std::string>& files, const char* name, MakeRunPage make) {
  return [files, name, make = std::move(make)](const HttpRequest& request) {
    return ReplyOf([&]() -> StatusOr<std::string> {
      const auto [at, run] = PlaceOf(request.Parameter(name), files.size());
      RIVULET_ASSIGN_OR_RETURN(const PlacedHistory placed, OpenPlaced(files, at));
      return make({*placed.history, placed.prefix, run}, request);
    }());
  };
}

// The result of `make` for the runs of the parameters "run", in their order.
using MakeOfRuns = std::function<StatusOr<HttpReply>(std::span<const PlacedRun> runs, const HttpRequest& request)>;

HttpServer::Handler OfRuns(const std::vector<std::string>& files, MakeOfRuns make) {
  return [files, make = std::move(make)](const HttpRequest& request) {
    StatusOr<HttpReply> reply = [&]() -> StatusOr<HttpReply> {
      std::vector<PlacedHistory> histories;
      for (size_t at = 0; at < files.size(); ++at) {
        RIVULET_ASSIGN_OR_RETURN(PlacedHistory placed, OpenPlaced(files, at));
        histories.push_back(std::move(placed));
      }
      std::vector<PlacedRun> runs;
      const auto [begin, end] = request.parameters.equal_range("run");
      for (auto run = begin; run != end; ++run) {
        const auto [at, name] = PlaceOf(run->second, files.size());
        runs.push_back({*histories[at].history, histories[at].prefix, name});
      }
      return make(runs, request);
    }();
    return reply.ok() ? *std::move(reply) : ReplyOf(reply.status());
  };
}

void ServeDownloads(HttpServer& server, const std::vector<std::string>& files) {
  server.Handle("/table.csv",
                OfRuns(files, [](std::span<const PlacedRun> runs, const HttpRequest& request) -> StatusOr<HttpReply> {
                  HttpReply reply{.content_type = "text/csv; charset=utf-8", .body = {}};
                  if (request.Parameter("of") == "runs") {
                    if (runs.empty()) return InvalidArgument("a list is of a history; add run= to the address");
                    RIVULET_ASSIGN_OR_RETURN(reply.body, RunsCsv(runs.front().history));
                  } else {
                    RIVULET_ASSIGN_OR_RETURN(reply.body, TableCsv(runs, request));
                  }
                  return reply;
                }));
  for (const bool png : {false, true}) {
    server.Handle(
        png ? "/picture.png" : "/picture.svg",
        OfRuns(files, [png](std::span<const PlacedRun> runs, const HttpRequest& request) -> StatusOr<HttpReply> {
          RIVULET_ASSIGN_OR_RETURN(const Picture picture, NamedPicture(runs, request));
          HttpReply reply{.content_type = png ? "image/png" : "image/svg+xml", .body = {}};
          if (!png) {
            reply.body = PictureSvg(picture, true);
          } else {
            RIVULET_ASSIGN_OR_RETURN(reply.body, PicturePng(picture));
          }
          return reply;
        }));
  }
}

RunsQuery QueryOf(const HttpRequest& request) {
  return {.find = request.Parameter("find"),
          .status = request.Parameter("status"),
          .algorithm = request.Parameter("algorithm"),
          .sort = request.Parameter("sort"),
          .ascending = request.Parameter("order") == "up",
          .first = request.Number("runs")};
}

}  // namespace

void ServePages(HttpServer& server, const std::vector<std::string>& files, LiveRun* live) {
  server.Handle("/", [files, live](const HttpRequest& request) {
    return ReplyOf([&]() -> StatusOr<std::string> {
      std::vector<PlacedHistory> histories;
      for (size_t at = 0; at < files.size(); ++at) {
        RIVULET_ASSIGN_OR_RETURN(PlacedHistory placed, OpenPlaced(files, at));
        histories.push_back(std::move(placed));
      }
      return RunsPage(histories, QueryOf(request), live);
    }());
  });
  server.Handle("/run", OfRun(files, "id", [live](const PlacedRun& run, const HttpRequest& request) {
                  return RunPage(run, request.Number("rounds"), request.Number("clients"),
                                 run.prefix.empty() ? live : nullptr);
                }));
  server.Handle("/round", OfRun(files, "run", [](const PlacedRun& run, const HttpRequest& request) {
                  return RoundPage(run, request.Number("round"), request.Number("first"));
                }));
  server.Handle("/client", OfRun(files, "run", [](const PlacedRun& run, const HttpRequest& request) {
                  return ClientHistoryPage(run, request.Parameter("client"), request.Number("first"));
                }));
  server.Handle("/model", OfRun(files, "run", [](const PlacedRun& run, const HttpRequest&) { return ModelPage(run); }));
  server.Handle("/labels",
                OfRun(files, "run", [](const PlacedRun& run, const HttpRequest&) { return LabelsPage(run); }));
  server.Handle("/compare",
                OfRuns(files, [](std::span<const PlacedRun> runs, const HttpRequest&) -> StatusOr<HttpReply> {
                  RIVULET_ASSIGN_OR_RETURN(std::string page, ComparePage(runs));
                  return HttpReply{.body = std::move(page)};
                }));
  ServeDownloads(server, files);
  server.AllowInPages(StyleSheet(), Script());
  server.Handle(kIconPath, [](const HttpRequest&) {
    return HttpReply{.content_type = "image/svg+xml", .body = std::string(Icon())};
  });
  if (live != nullptr) server.HandleStream(kFeedPath, [live](const HttpRequest&) { return live->Open(); });
  server.HandleErrors([](const std::string& title, const std::string& sentence) { return ErrorPage(title, sentence); });
}

}  // namespace rivulet
