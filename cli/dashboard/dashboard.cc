// rivulet dashboard: the history as pages for a browser on this machine.
#include <httplib.h>

#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/dashboard/pages.h"
#include "cli/interrupt.h"
#include "coordinator/history/history.h"

namespace rivulet {
namespace {

struct DashboardOptions {
  std::string db = "./rivulet.sqlite";
  std::string http = "127.0.0.1:8080";
};

// What a page may do in the browser: show itself and its style sheet. No script runs, nothing is fetched from
// elsewhere, and no other page may frame it.
constexpr const char* kContentSecurityPolicy =
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

struct DashboardAddress {
  std::string host;
  int port = 0;
};

// Pages are for whoever sits at this machine: they have no password, so nobody else is served.
StatusOr<DashboardAddress> ParseDashboardAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  DashboardAddress address;
  if (colon == text.npos) return UsageError("--http takes HOST:PORT such as 127.0.0.1:8080, not '{}'", Shortened(text));
  address.host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != port.npos ||
      (address.port = std::stoi(port)) > 65535)
    return UsageError("--http takes HOST:PORT with a port of 0 to 65535, not '{}'", Shortened(text));
  if (address.host != "127.0.0.1" && address.host != "localhost" && address.host != "[::1]")
    return UsageError(
        "--http serves this machine alone, 127.0.0.1, [::1] or localhost, not '{}': from elsewhere, ssh -L brings a "
        "port over",
        Shortened(address.host));
  if (address.host == "[::1]") address.host = "::1";
  return address;
}

// A page of another site that has its own name lead here would read what is served: only our names are answered.
bool IsOurName(const std::string& host) {
  const std::string name = host.substr(0, host.ends_with(']') ? host.size() : host.rfind(':'));
  return name == "127.0.0.1" || name == "localhost" || name == "[::1]";
}

int64_t NumberParameter(const httplib::Request& request, const char* name) {
  const std::string text = request.get_param_value(name);
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != text.npos) return 0;
  return std::stoll(text);
}

Status Serve(const DashboardOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const DashboardAddress address, ParseDashboardAddress(options.http));
  // A mistyped name is told before anybody opens a browser.
  RIVULET_RETURN_IF_ERROR(History::Open(options.db, History::Access::kReadOnly).status());
  httplib::Server server;
  // A connection takes a thread for as long as it is open. Browsers open some to say nothing on, and these must not
  // keep a page waiting: they are given a second.
  server.new_task_queue = [] { return new httplib::ThreadPool(32); };  // whose owner the library is
  server.set_keep_alive_timeout(1);
  server.set_read_timeout(2);
  // The library's own choice lets two processes share a port, and each would get some of the requests.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_default_headers({{"Content-Security-Policy", kContentSecurityPolicy},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cache-Control", "no-store"}});
  server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (reads && IsOurName(request.get_header_value("Host"))) return httplib::Server::HandlerResponse::Unhandled;
    response.status = reads ? 403 : 405;
    response.set_content(ErrorPage("Not served", reads ? "This page answers to 127.0.0.1 and localhost alone."
                                                       : "Pages can only be read."),
                         "text/html; charset=utf-8");
    return httplib::Server::HandlerResponse::Handled;
  });
  // Opened anew for each page, so that the file may be replaced, and no reader stands in a writer's way for longer.
  const auto page = [&options](httplib::Response& response, const auto& make) {
    const auto made = [&]() -> StatusOr<std::string> {
      RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.db, History::Access::kReadOnly));
      return make(*history);
    }();
    if (!made.ok()) response.status = absl::IsNotFound(made.status()) ? 404 : 400;
    response.set_content(made.ok() ? *made : ErrorPage("That did not work", Message(made.status())),
                         "text/html; charset=utf-8");
  };
  server.Get("/", [&](const httplib::Request& request, httplib::Response& response) {
    page(response, [&](History& history) { return RunsPage(history, NumberParameter(request, "runs")); });
  });
  server.Get("/run", [&](const httplib::Request& request, httplib::Response& response) {
    page(response, [&](History& history) {
      return RunPage(history, request.get_param_value("id"), NumberParameter(request, "rounds"),
                     NumberParameter(request, "clients"));
    });
  });
  server.Get("/compare", [&](const httplib::Request& request, httplib::Response& response) {
    page(response, [&](History& history) {
      std::vector<std::string> runs;
      for (size_t i = 0; i < request.get_param_value_count("run"); ++i)
        runs.push_back(request.get_param_value("run", i));
      return ComparePage(history, runs);
    });
  });
  server.Get(kStylePath, [](const httplib::Request&, httplib::Response& response) {
    response.set_content(std::string(StyleSheet()), "text/css; charset=utf-8");
  });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty())
      response.set_content(ErrorPage("No such page", "There is nothing under this address."),
                           "text/html; charset=utf-8");
  });

  int port = address.port;
  if (port == 0) {
    port = server.bind_to_any_port(address.host);
    if (port < 0) return Unavailable("no port of {} could be taken", address.host);
  } else if (!server.bind_to_port(address.host, port)) {
    return Unavailable("port {} of {} could not be taken; is another dashboard there? Choose one with --http HOST:PORT",
                       port, address.host);
  }
  fmt::print("{} at http://{}:{}/\n", options.db, address.host == "::1" ? "[::1]" : address.host, port);
  std::fflush(stdout);
  Interrupt interrupt;
  interrupt.Call([&] { server.stop(); });
  const bool served = server.listen_after_bind();
  interrupt.Forget();
  if (served || interrupt.happened()) return absl::OkStatus();
  return Unavailable("port {} of {} is not served any more", port, address.host);
}

const RegisterCommand kDashboard(41, [] {
  auto options = std::make_shared<DashboardOptions>();
  Command command{.name = "dashboard",
                  .summary = "Show the history of runs as pages for a browser on this machine.",
                  .example = "rivulet dashboard --db ./rivulet.sqlite"};
  command.Option("--db", "FILE", &options->db, "the history; it is only read [./rivulet.sqlite]")
      .Option("--http", "HOST:PORT", &options->http, "where it is served, port 0 being any [127.0.0.1:8080]");
  command.run = [options] { return Serve(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
