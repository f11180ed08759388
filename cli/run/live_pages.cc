#include "cli/run/live_pages.h"

#include "cli/shell_quote.h"
#include "engine/base/usage_error.h"
#include "pages/page_parts.h"
#include "pages/serve_pages.h"

namespace rivulet {

StatusOr<std::unique_ptr<LivePages>> LivePages::Create(HttpOptions options, const std::string& db, int64_t rounds,
                                                       std::function<void(const std::string& sentence)> tell) {
  std::unique_ptr<LivePages> pages(new LivePages(rounds));
  if (options.address.empty()) {
    if (!options.token_file.empty() || !options.tls.empty())
      return UsageError("--http-token and --http-tls protect the pages of --http HOST:PORT; give that too");
    return pages;
  }
  options.lists_beside = db;
  RIVULET_ASSIGN_OR_RETURN(pages->server_, HttpServer::Create(options, std::move(tell)));
  return pages;
}

void LivePages::Observe(CoordinatorObserver& observer) {
  if (server_ != nullptr) live_.Observe(observer);
}

StatusOr<std::string> LivePages::Begin(const std::string& db, const std::string& run_id) {
  if (server_ == nullptr) return std::string();
  if (run_id.empty()) {
    ServePages(*server_, {db}, nullptr);
    server_->Start();
    return server_->url();
  }
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(std::vector<Curve> before, LoadCurves(*history, run_id));
  live_.Begin(run_id, std::move(before));
  ServePages(*server_, {db}, &live_);
  server_->Start();
  return fmt::format("{}run?id={}", server_->url(), UrlText(run_id));
}

void LivePages::End(const Status& status, const std::string& db) {
  if (server_ == nullptr) return;
  live_.End(fmt::format("{}; these pages ended with the process, and 'rivulet dashboard --db {}' shows the run",
                        status.ok() ? "it has finished" : "it has ended: " + std::string(Message(status)),
                        ShellQuote(db)));
  server_->Stop();
}

}  // namespace rivulet
