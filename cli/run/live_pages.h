// Live pages of a running `simulate` or `coordinator`: --http.
#pragma once

#include <memory>
#include <string>

#include "http/http_server.h"
#include "pages/live_run.h"

namespace rivulet {

// Calls: Create Observe Begin End. Without --http it exists and does nothing.
class LivePages {
 public:
  // Binds the port. Errors as HttpServer::Create. `tell` receives log messages, on any thread. The revocation list is
  // stored beside the history `db`.
  static StatusOr<std::unique_ptr<LivePages>> Create(HttpOptions options, const std::string& db, int64_t rounds,
                                                     std::function<void(const std::string& sentence)> tell);

  // Adds its handlers to those of `observer`. This must outlive the coordinator.
  void Observe(CoordinatorObserver& observer);
  // Serves the history at `db`, with the run of this id as the live one; "": none is live, and rounds appear with their
  // rows. Gives the address of its page; "" without --http.
  StatusOr<std::string> Begin(const std::string& db, const std::string& run_id);
  // Shows viewers the end of the run, and that the pages end with the process.
  void End(const Status& status, const std::string& db);

  // The server, for other pages of the process, before Begin; null without --http.
  HttpServer* server() { return server_.get(); }

 private:
  explicit LivePages(int64_t rounds) : live_(rounds) {}

  LiveRun live_;
  std::unique_ptr<HttpServer> server_;  // after the members it shows, so that it is destroyed first
};

}  // namespace rivulet
