// The end of a call between tasks. Internal to this folder and its tests.
#pragma once

#include <functional>

#include "dataflow/cluster/wire.h"
#include "engine/base/status.h"

namespace rivulet {

// Ends a call: its answer is complete, or has an error in its place.
using FinishCall = std::function<void(const Status& status)>;

// `finish` of a call whose caller may want an error in the answer's body, where it has room for a long sentence.
template <class Request, class Response>
FinishCall FinishInBody(const Request& request, Response* response, FinishCall finish) {
  if (!request.store_errors_in_response_body()) return finish;
  return [response, finish = std::move(finish)](const Status& status) {
    if (status.ok()) return finish(status);
    response->set_status_code(static_cast<int>(status.code()));
    response->set_status_error_message(BodyText(status));
    finish(absl::OkStatus());
  };
}

}  // namespace rivulet
