// What pages hold beside what they say, as text in the binary.
#include "pages/pages.h"

namespace rivulet {

std::string_view StyleSheet() {
  return R"css(:root { color-scheme: light dark; --ground: #ffffff; --ink: #1b1f23; --faint: #5c6670; --line: #d5dae0;
  --head: #f3f5f7; --link: #005a9c; --good: #007048; --bad: #b03a00; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14181c; --ink: #e4e8ec; --faint: #9aa5b1; --line: #333c45; --head: #1e242a; --link: #7cc0ff;
    --good: #4fd1a1; --bad: #ff9a66; }
}
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
header { padding: .6rem 1.2rem; border-bottom: 1px solid var(--line); font-weight: 600; }
main { padding: 0 1.2rem 3rem; max-width: 90rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin-top: 2rem; }
a { color: var(--link); } a:focus-visible, input:focus-visible, button:focus-visible { outline: 2px solid var(--link); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { background: var(--head); position: sticky; top: 0; white-space: nowrap; }
.n { text-align: right; }
/* A wide table is pushed sideways in its place; only its last column, with sentences, breaks its lines. */
th, td { white-space: nowrap; } td:last-child { white-space: normal; } .scroll td:last-child:not(.n) { min-width: 14rem; }
td { overflow-wrap: anywhere; }
.facts th { font-weight: normal; color: var(--faint); }
.status { white-space: nowrap; } .finished { color: var(--good); } .failed, .interrupted { color: var(--bad); }
.curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; max-width: 45rem; } .faint code { white-space: nowrap; }
svg { width: 100%; max-width: 45rem; height: auto; }
.paper { background: #ffffff; color: #222222; overflow-x: auto; }
progress { width: 100%; max-width: 45rem; height: .7rem; accent-color: var(--link); }
h3 { font-size: .95rem; margin-bottom: .3rem; } #live-log .scroll { max-height: 16rem; overflow-y: auto; }
.goto { display: flex; flex-wrap: wrap; gap: 1.5rem; } .goto input { font: inherit; max-width: 16rem; }
.faint, .leaf { color: var(--faint); } pre { overflow-x: auto; background: var(--head); padding: .8rem; }
)css";
}

// What the feed sends is made by the server whole: the script puts it in its places. Where no script runs the page
// stays as it was loaded.
std::string_view Script() {
  return R"js("use strict";
(() => {
  const link = document.getElementById("live-link");
  if (!link) return;
  const feed = new EventSource(link.dataset.feed);
  feed.addEventListener("show", (event) => {
    const shown = JSON.parse(event.data);
    for (const [id, html] of Object.entries(shown.places)) {
      const place = document.getElementById(id);
      if (place) place.innerHTML = html;
    }
    link.textContent = "live";
    if (shown.closed) link.dataset.delay = Date.now() - shown.closed;
  });
  feed.addEventListener("end", () => {
    feed.close();
    link.textContent = "ended";
  });
  feed.addEventListener("error", () => {
    link.textContent = feed.readyState === EventSource.CLOSED ? "not live: load the page again" : "not heard of any more; trying again";
  });
})();
)js";
}

// Three rivulets that join.
std::string_view Icon() {
  return R"svg(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M2 1c0 7 6 5 6 10v4M14 1c0 7-6 5-6 10M8 1v8"
fill="none" stroke="#0072B2" stroke-width="2" stroke-linecap="round"/></svg>
)svg";
}

}  // namespace rivulet
