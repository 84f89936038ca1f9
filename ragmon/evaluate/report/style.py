"""The page's style sheet: one column on a phone, two where there is room."""

STYLE = """
:root{color-scheme:light dark;--ink:#111827;--dim:#5b6472;--line:#d5dae1;--paper:#fff;
--soft:#f3f5f8;--good:#047857;--fair:#a16207;--poor:#b91c1c}
@media(prefers-color-scheme:dark){:root{--ink:#e5e9f0;--dim:#9aa4b2;--line:#39424f;
--paper:#12161c;--soft:#1c222b;--good:#34d399;--fair:#facc15;--poor:#f87171}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 auto;
max-width:60rem;padding:1rem}
h1{font-size:1.4rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:1.6rem 0 .4rem}
h3{overflow-wrap:anywhere;font-size:.95rem;margin:.8rem 0 .2rem;font-weight:600}
p{margin:.4rem 0}.dim{color:var(--dim)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));
gap:.6rem;margin:1rem 0}
.card{background:var(--soft);border-radius:.5rem;padding:.6rem .7rem;overflow-wrap:anywhere}
.card b{font-size:1.35rem}.card div{font-size:.85rem}
.chip{font-size:.75rem;border:1px solid var(--line);border-radius:1rem;padding:0 .5rem;
white-space:nowrap}.good{color:var(--good)}.fair{color:var(--fair)}.poor{color:var(--poor)}
.notes{background:var(--soft);border-radius:.5rem;padding:.6rem .8rem .6rem 1.6rem;font-size:.9rem}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,21rem),1fr));gap:0 2rem}
.small{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:.4rem 1rem}
summary{cursor:pointer}summary h2{display:inline-block}
.family{padding:.5rem 0;border-bottom:1px solid var(--line);font-size:.92rem}
.family p{margin:.15rem 0}
.metric{display:grid;grid-template-columns:1fr auto;gap:.1rem .8rem;margin:.2rem 0 .4rem}
.metric>*{grid-column:1/-1}.metric>.name{grid-column:1}
.metric>.value{grid-column:2;text-align:right}
.advice{border-left:3px solid var(--c2);padding-left:.5rem}
.range{position:relative;height:.5rem;background:var(--soft);border-radius:.25rem}
.range i{position:absolute;top:0;bottom:0;min-width:2px;background:var(--c1);opacity:.45;
border-radius:.25rem}
.range u{position:absolute;top:-2px;bottom:-2px;width:2px;background:var(--ink)}
.case{border-bottom:1px solid var(--line);padding:.5rem 0}.case summary{font-weight:600}
.scores span{display:inline-block;margin-right:.9rem;font-size:.88rem}
ol{padding-left:1.4rem}li{margin:.5rem 0}.chunk{font-size:.88rem;white-space:pre-wrap;
background:var(--soft);border-radius:.4rem;padding:.4rem .6rem;overflow-wrap:anywhere}
code{font-size:.85em;overflow-wrap:anywhere}
@media print{details>*{display:revert}}
"""
