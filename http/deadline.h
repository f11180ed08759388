// A deadline of a socket, and work on other threads that a coroutine waits for. Included by beast_server.cc alone.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "engine/base/executor.h"

namespace rivulet {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using tcp = asio::ip::tcp;

// One deadline at a time. When it passes, the socket is closed, or its reads and writes are cancelled, and waits on it
// end. Used on the server's thread alone.
class Deadline {
 public:
  explicit Deadline(tcp::socket& socket) : socket_(socket), timer_(socket.get_executor()) {}
  enum class Then { kClose, kCancel };
  void Set(milliseconds time, Then then = Then::kClose) {
    passed_ = false;
    timer_.expires_after(time);
    timer_.async_wait([this, then, turn = ++turn_, alive = std::weak_ptr<int>(alive_)](error_code error) {
      if (alive.expired() || error || turn != turn_) return;
      error_code ignored;
      passed_ = true;
      if (then == Then::kCancel) {
        socket_.cancel(ignored);
      } else {
        socket_.close(ignored);
      }
    });
  }
  bool passed() const { return passed_; }  // the most recently set deadline
  void Clear() {
    ++turn_;
    timer_.cancel();
  }

 private:
  tcp::socket& socket_;
  asio::steady_timer timer_;
  uint64_t turn_ = 0;
  bool passed_ = false;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

// Runs `work` on `pool` and continues on the calling executor; gives a default result if memory is exhausted. The
// server has one thread, so the timer waits before the job can report its end. (Arguments of co_await are variables
// throughout: GCC 12 may destroy temporaries there twice.)
template <typename Result>
asio::awaitable<Result> RunOn(Executor& pool, const std::function<Result()>& work) {
  struct State {
    explicit State(const asio::steady_timer::executor_type& executor)
        : done(executor, steady_clock::time_point::max()) {}
    Result result = {};
    bool ready = false;
    asio::steady_timer done;
  };
  const auto executor = co_await asio::this_coro::executor;
  const auto state = std::make_shared<State>(executor);
  pool.Run([state, executor, work] {
    try {
      state->result = work();
    } catch (...) {
    }
    asio::post(executor, [state] {
      state->ready = true;
      state->done.cancel();
    });
  });
  error_code ignored;
  while (!state->ready) co_await state->done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return std::move(state->result);
}

// The same for work that reports its own end, on any thread: `work` is called on `pool` with a function that must be
// called once with the result, by any code.
template <typename Result>
asio::awaitable<Result> RunUntilDone(Executor& pool, const std::function<void(std::function<void(Result)>)>& work) {
  struct State {
    explicit State(const asio::steady_timer::executor_type& executor)
        : done(executor, steady_clock::time_point::max()) {}
    Result result = {};
    bool ready = false;
    asio::steady_timer done;
  };
  const auto executor = co_await asio::this_coro::executor;
  const auto state = std::make_shared<State>(executor);
  const std::function<void(Result)> done = [state, executor](Result result) {
    state->result = std::move(result);
    asio::post(executor, [state] {
      state->ready = true;
      state->done.cancel();
    });
  };
  pool.Run([work, done] {
    try {
      work(done);
    } catch (...) {
      done({});
    }
  });
  error_code ignored;
  while (!state->ready) co_await state->done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return std::move(state->result);
}

}  // namespace rivulet
