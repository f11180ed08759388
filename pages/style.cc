// The style sheet of the pages, light and dark, as text in the binary.
#include "pages/pages.h"

namespace rivulet {

std::string_view StyleSheet() {
  return R"css(:root { color-scheme: light dark; --ground: #f5f7f9; --sheet: #ffffff; --ink: #1a2027; --faint: #5a6673; --line: #dde3e9;
  --head: #f0f3f6; --link: #0a5fa3; --good: #0a7350; --bad: #b3341a; --warn: #8a5a00; --good-ground: #e2f4ec; --bad-ground: #fbe9e4;
  --warn-ground: #fdf1d8; --link-ground: #e3f0fa; --rest: #b9c2cc; --shade: 0 1px 2px rgb(20 30 40 / .07); }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0f1317; --sheet: #171c22; --ink: #e3e8ed; --faint: #9ba7b4; --line: #2b333c; --head: #1e252c; --link: #79bdf7;
    --good: #5fd3a6; --bad: #ff9a7d; --warn: #f0bf5a; --good-ground: #15342a; --bad-ground: #3b2019; --warn-ground: #372b12;
    --link-ground: #14304a; --rest: #4a5561; --shade: none; }
  /* The colours of pictures are made for white paper. */
  [stroke="#0072B2"] { stroke: #4fb0ee; } [fill="#0072B2"] { fill: #4fb0ee; }
  [stroke="#D55E00"] { stroke: #ff8a3c; } [fill="#D55E00"] { fill: #ff8a3c; }
  [stroke="#009E73"] { stroke: #2fc79a; } [fill="#009E73"] { fill: #2fc79a; }
  [stroke="#7A7A7A"] { stroke: #a8b0b8; } [fill="#7A7A7A"] { fill: #a8b0b8; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 14px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.bar { background: var(--sheet); border-bottom: 1px solid var(--line); }
.bar nav { display: flex; align-items: center; gap: .5rem; max-width: 92rem; margin: 0 auto; padding: .55rem 1.5rem; min-width: 0; }
.bar img { width: 20px; height: 20px; } .bar a { color: inherit; text-decoration: none; font-weight: 600; }
.bar span a { font-weight: 400; } .bar a:hover { text-decoration: underline; } .bar span { color: var(--faint); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
main { padding: 1.1rem 1.5rem 3rem; max-width: 92rem; margin: 0 auto; }
h1 { font-size: 1.45rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.08rem; margin: 2rem 0 .6rem; } h3 { font-size: .95rem; margin: 1rem 0 .4rem; }
p { margin: .5rem 0; } a { color: var(--link); } code { font-size: .92em; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
.faint, .leaf { color: var(--faint); } .small { font-size: .86rem; } .n { text-align: right; }
.title { display: flex; flex-wrap: wrap; align-items: center; gap: .3rem .7rem; margin-bottom: .7rem; } .title + .under { margin-top: -.45rem; } .title .actions { margin-left: auto; }
.under { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .25rem 0 1rem; color: var(--faint); }
.status, .chip { display: inline-block; border-radius: 1rem; padding: 0 .6rem; white-space: nowrap; font-size: .86rem; line-height: 1.55; }
.status { background: var(--head); color: var(--faint); font-weight: 600; }
.finished, .folded, .committed, .active, .approved, .healthy { background: var(--good-ground); color: var(--good); }
.failed, .refused, .banned, .removed, .abandoned, .unhealthy { background: var(--bad-ground); color: var(--bad); }
.interrupted, .paused, .dropped, .attention { background: var(--warn-ground); color: var(--warn); }
.running { background: var(--link-ground); color: var(--link); }
.chip { border: 1px solid var(--line); color: var(--faint); background: var(--sheet); margin: 0 .25rem .15rem 0; border-radius: .35rem; padding: 0 .4rem; }
.chip b { color: var(--ink); font-weight: 500; } .differs .chip { max-width: 15rem; overflow: hidden; text-overflow: ellipsis; vertical-align: bottom; }
/* Cards: what is asked first. */
.cards { display: grid; grid-template-columns: repeat(4, 1fr); gap: .9rem; }
.card { background: var(--sheet); border: 1px solid var(--line); border-radius: .55rem; padding: .8rem 1rem; box-shadow: var(--shade); min-width: 0; }
.card h2 { margin: 0 0 .15rem; font-size: .86rem; color: var(--faint); font-weight: 600; }
.card .big { font-size: 1.7rem; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; margin: 0; }
.card .big small { font-size: .9rem; font-weight: 400; color: var(--faint); }
.card ul { margin: .4rem 0 0; padding: 0; list-style: none; } .card li { margin: .12rem 0; overflow-wrap: anywhere; }
.card.attention { background: var(--sheet); color: inherit; border-top: 3px solid var(--warn); } .card.attention .big { color: var(--warn); }
.card.unhealthy { background: var(--sheet); color: inherit; border-top: 3px solid var(--bad); } .card.unhealthy .big { color: var(--bad); }
.card.healthy { background: var(--sheet); color: inherit; border-top: 3px solid var(--good); } .card.healthy .big { color: var(--good); }
.card svg { display: block; width: 100%; height: auto; margin-top: .35rem; }
.legend { display: flex; flex-wrap: wrap; gap: 0 .8rem; margin: .3rem 0 0; } .legend svg { display: inline; width: 10px; height: 10px; margin: 0 .3rem 0 0; }
progress { width: 100%; height: .5rem; accent-color: var(--link); display: block; margin: .35rem 0; }
.says { border-radius: .45rem; padding: .5rem .8rem; margin: 0 0 .9rem; } .says p { margin: .1rem 0; }
/* Places of a page. */
.places { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; position: sticky; top: 0; background: var(--ground); padding: .5rem 0; margin: .6rem 0 0; z-index: 3;
  border-bottom: 1px solid var(--line); } .places a { text-decoration: none; } .places a:hover { text-decoration: underline; }
h2[id], h3[id] { scroll-margin-top: 3rem; }
.heading { display: flex; flex-wrap: wrap; align-items: baseline; gap: .2rem 1rem; margin: 2rem 0 .6rem; } .heading h2 { margin: 0; }
.get { margin-left: auto; color: var(--faint); font-size: .86rem; } .get a { margin-left: .5rem; }
/* Tables. */
figure + .scroll { margin-top: .6rem; }
.scroll { overflow-x: auto; background: var(--sheet); border: 1px solid var(--line); border-radius: .55rem; box-shadow: var(--shade); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .36rem .75rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
tbody tr:last-child > * { border-bottom: 0; } tbody tr:hover { background: var(--head); }
thead th { background: var(--head); color: var(--faint); font-weight: 600; font-size: .86rem; } th.n, td.n { text-align: right; }
thead th a { color: inherit; text-decoration: none; } thead th a:hover { text-decoration: underline; } thead th[aria-sort] { color: var(--ink); }
td:last-child { white-space: normal; } td { overflow-wrap: anywhere; }
@media (min-width: 40.01rem) { .scroll td:last-child:not(.n):not(.began):not(:empty) { min-width: 17rem; } }
.wraps th, .wraps td { white-space: normal; } .wraps td:first-child { white-space: nowrap; }
.why { display: block; min-width: 12rem; max-width: 22rem; white-space: normal; color: var(--faint); font-size: .86rem; }
.facts { width: auto; } .facts th { font-weight: normal; color: var(--faint); } .facts td { white-space: normal; }
.id { display: block; color: var(--faint); font-size: .8rem; font-weight: 400; }
.runs th, .runs td { padding: .36rem .45rem; } .runs td { vertical-align: middle; } .runs thead th { white-space: normal; vertical-align: bottom; }
.runs td.called .id { max-width: 11.5rem; overflow: hidden; text-overflow: ellipsis; } .runs .name { font-weight: 600; }
.runs svg { display: block; width: 108px; height: 30px; } .runs progress { width: 100%; min-width: 4.5rem; margin: .1rem 0 0; }
.runs td.differs { white-space: normal; min-width: 15rem; } .runs td.began { white-space: nowrap; } .runs input { accent-color: var(--link); width: 1rem; height: 1rem; }
.best { font-weight: 700; } .key svg { display: inline; width: 22px; height: 8px; margin-right: .5rem; vertical-align: middle; }
/* Forms. */
.tools { display: flex; flex-wrap: wrap; gap: .6rem .9rem; align-items: end; margin: 0 0 .8rem; } .tools label { color: var(--faint); font-size: .86rem; }
.tools input, .tools select { display: block; height: 2.1rem; } .tools button { height: 2.1rem; } input, select, button { font: inherit; color: inherit; background: var(--sheet); border: 1px solid var(--line);
  border-radius: .35rem; padding: .25rem .55rem; max-width: 100%; } button { background: var(--head); cursor: pointer; } button:hover { border-color: var(--faint); }
button.main { background: var(--link); color: var(--sheet); border-color: var(--link); }
.goto { margin-top: .6rem; display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; } .goto input { max-width: 14rem; } .goto input[type="number"] { max-width: 7rem; }
.below { display: flex; flex-wrap: wrap; gap: .6rem 1rem; align-items: center; margin: .8rem 0; }
/* Pictures. */
.curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(25rem, 100%), 1fr)); gap: .9rem; }
figure { margin: 0; background: var(--sheet); border: 1px solid var(--line); border-radius: .55rem; padding: .6rem .8rem; box-shadow: var(--shade);
  position: relative; min-width: 0; overflow-x: auto; }
figcaption { display: flex; flex-wrap: wrap; gap: 0 .8rem; align-items: baseline; } figcaption b { font-weight: 600; } figcaption .get { margin-left: auto; }
figure svg { display: block; width: 100%; height: auto; } figure.wide { max-width: 50rem; } figure.broad { max-width: 72rem; }
.plot { position: relative; } .tip { position: absolute; pointer-events: none; background: var(--sheet); border: 1px solid var(--line); border-radius: .35rem;
  padding: .15rem .5rem; font-size: .86rem; white-space: nowrap; box-shadow: 0 2px 8px rgb(0 0 0 / .18); z-index: 2; }
.paper { background: #ffffff; color: #222222; overflow-x: auto; }
.series { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .2rem 0 0; } .series svg { display: inline; width: 22px; height: 8px; margin-right: .35rem; }
.knobs { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; align-items: center; color: var(--faint); margin-left: auto; } .knobs[hidden] { display: none; }
.knobs input { vertical-align: middle; } .knobs input[type="range"] { width: 7rem; padding: 0; border: 0; }
pre { overflow-x: auto; background: var(--head); padding: .8rem; border-radius: .45rem; } summary { cursor: pointer; color: var(--link); }
#live-log .scroll { max-height: 16rem; overflow-y: auto; }
@media (max-width: 75rem) {
  .cards { grid-template-columns: repeat(2, 1fr); }
  th, td { padding: .36rem .45rem; } .rows th, .rows td { padding: .36rem .3rem; } .rows thead th { white-space: normal; vertical-align: bottom; font-size: .8rem; }
  .rows td:not(.n) { white-space: normal; } .rows td:not(:first-child):not(:last-child) { overflow-wrap: break-word; } .rows td:first-child:not(.n) { min-width: 6rem; } .why { min-width: 8rem; }
  main { padding: 1.1rem 1rem 3rem; } .bar nav { padding: .55rem 1rem; }
  .runs th, .runs td { padding: .36rem .22rem; } .runs svg { width: 64px; } .runs td.differs { min-width: 8rem; } .differs .chip { max-width: 9rem; }
  .runs td.called, .runs td.began { white-space: normal; } .runs td.called .id { max-width: 8rem; white-space: nowrap; } .runs td.began { min-width: 6rem; }
  .runs .status { padding: 0 .3rem; font-size: .8rem; } .runs progress { min-width: 3.5rem; }
}
@media (max-width: 40rem) {
  figure.wide svg, figure.broad svg { min-width: 36rem; } td.key { white-space: normal; min-width: 9rem; } .differs .chip { max-width: 100%; }
  main { padding: .8rem .8rem 2rem; } .bar nav { padding: .5rem .8rem; } .cards { grid-template-columns: 1fr; gap: .6rem; } .card { padding: .55rem .8rem; }
  .card .big { font-size: 1.35rem; } h1 { font-size: 1.2rem; } .places { position: static; } .title .actions { margin-left: 0; }
  /* A row of the list is a card. */
  .runs thead { display: none; } .runs, .runs tbody { display: block; }
  .runs tr { display: grid; grid-template-columns: 1.6rem minmax(0, 1fr) minmax(0, 1fr); gap: .1rem .6rem; padding: .6rem .7rem; border-bottom: 1px solid var(--line); }
  .runs td { display: block; border: 0; padding: 0; min-width: 0; text-align: left; } .runs td[data-is]:not(:empty)::before { content: attr(data-is) " "; color: var(--faint); font-size: .8rem; }
  .rows thead { display: none; } .rows, .rows tbody { display: block; }
  .rows tr { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .1rem .8rem; padding: .6rem .7rem; border-bottom: 1px solid var(--line); }
  .rows tr:last-child { border-bottom: 0; } .rows td, .rows th.n, .rows td.n { display: block; border: 0; padding: 0; min-width: 0; text-align: left; white-space: normal; }
  .rows td:empty { display: none; } .rows td:first-child, .rows td:last-child:not(.n), .rows td:has(.why) { grid-column: 1 / -1; } .rows td:first-child { font-weight: 600; }
  .rows td[data-is]::before { content: attr(data-is) " "; color: var(--faint); font-size: .8rem; font-weight: 400; } .why { max-width: none; }
  .runs td.tick { grid-row: 1 / span 12; } .runs td.called, .runs td.differs, .runs td.began { grid-column: 2 / 4; } .runs td.called .id { max-width: none; } .runs td.differs:empty { display: none; }
}
)css";
}

}  // namespace rivulet
