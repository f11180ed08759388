// rivulet dashboard: the history as pages for a browser.
#include <poll.h>

#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/http_options.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "coordinator/history/history.h"
#include "engine/base/join.h"
#include "pages/serve_pages.h"

namespace rivulet {
namespace {

struct DashboardOptions {
  std::vector<std::string> dbs;  // empty: ./rivulet.sqlite
  HttpOptions http{.address = "127.0.0.1:8080", .token_file = {}, .tls = {}};
};

Status ServeDashboard(const DashboardOptions& options) {
  // A mistyped name is reported before a browser is opened.
  std::vector<std::string> files = options.dbs;
  if (files.empty()) files.push_back("./rivulet.sqlite");
  for (const std::string& file : files)
    RIVULET_RETURN_IF_ERROR(History::Open(file, History::Access::kReadOnly).status());
  HttpOptions http = options.http;
  http.lists_beside = files.front();
  RIVULET_ASSIGN_OR_RETURN(
      const std::unique_ptr<HttpServer> server,
      HttpServer::Create(http, [](const std::string& sentence) { PrintNote(sentence, Note::kImportant); }));
  ServePages(*server, files, nullptr);
  Interrupt interrupt;
  server->Start();
  fmt::print("{} at {}\n", Join(files, ", "), server->url());
  std::fflush(stdout);
  // The server ends only if the system gives it no more connections, which is polled here.
  while (server->running() && !interrupt.happened()) {
    pollfd interrupted{interrupt.fd(), POLLIN, 0};
    poll(&interrupted, 1, 500);
  }
  server->Stop();
  if (interrupt.happened()) return absl::OkStatus();
  return Unavailable("{} is not served any more", server->url());
}

const RegisterCommand kDashboard(41, [] {
  auto options = std::make_shared<DashboardOptions>();
  Command command{.name = "dashboard",
                  .summary = "Serve the history of runs as pages for a browser.",
                  .example = "rivulet dashboard --db ./rivulet.sqlite"};
  command.Repeated("--db", "FILE", &options->dbs, "the history, opened read-only; repeatable [./rivulet.sqlite]");
  AddHttpOptions(command, &options->http, "listening address; port 0 takes any free one");
  command.run = [options] { return ServeDashboard(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
