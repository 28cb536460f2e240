// Which view is shown? The part of the address after # says so; each view is told when it is left (`signal`), and what
// it still waits for ends with it.

import { token } from "./api.js";
import { deadView } from "./dead.js";
import { announce, el, fault } from "./dom.js";
import { imageView } from "./image.js";
import { jobView } from "./job.js";
import { jobsView } from "./jobs.js";
import { queueView } from "./queue.js";
import * as session from "./session.js";
import { signInView } from "./signin.js";
import { workersView } from "./workers.js";

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const caller = document.getElementById("caller");

const ROUTES = [
  [/^\/jobs$/, "Jobs", jobsView],
  [/^\/jobs\/([^/]+)$/, "Job", jobView],
  [/^\/jobs\/([^/]+)\/images\/(\d+)$/, "Image", imageView],
  [/^\/queue$/, "Queue", queueView],
  [/^\/workers$/, "Workers", workersView],
  [/^\/dead$/, "Dead list", deadView],
];

let leaving = new AbortController();
let refused = null; // why the server wants to see a token again

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const signal = leaving.signal;
  announce("");
  if (!token.get()) return signIn(signal);
  const [address, query = ""] = (location.hash.slice(1) || "/jobs").split("?");
  try {
    if (!session.known()) await session.recognise(signal);
    frame(address);
    const route = ROUTES.find(([pattern]) => pattern.test(address));
    if (!route) throw Object.assign(new Error(`There is no page ${address}.`), { title: "Not found" });
    const [pattern, title, view] = route;
    document.title = `${title} · samjobs`;
    const parameters = pattern.exec(address).slice(1).map(decodeURIComponent);
    await view(main, { parameters, query: new URLSearchParams(query), signal });
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 401) {
      refused = error.message;
      return signIn(signal);
    }
    main.replaceChildren(
      el("h1", { tabindex: "-1" }, "Something went wrong"),
      fault(error),
      el("p", {}, el("a", { href: "#/jobs" }, "To the jobs")),
    );
  }
  // Who uses a keyboard or a screen reader begins where the new content does; a field that has the focus keeps it.
  if (!main.contains(document.activeElement)) main.querySelector("h1")?.focus();
}

function signIn(signal) {
  session.forget();
  nav.hidden = caller.hidden = true;
  document.title = "Sign in · samjobs";
  signInView(main, {
    signal,
    why: refused,
    entered: () => {
      refused = null;
      show();
    },
  });
}

function frame(address) {
  const pages = [
    ["/jobs", "Jobs"],
    ["/queue", "Queue"],
  ];
  if (session.may("admin")) pages.push(["/workers", "Workers"]);
  pages.push(["/dead", "Dead list"]);
  nav.replaceChildren(
    ...pages.map(([page, title]) =>
      el("a", { href: `#${page}`, "aria-current": address.startsWith(page) ? "page" : null }, title),
    ),
  );
  const leave = () => {
    token.forget();
    show();
  };
  caller.replaceChildren(
    el("span", { title: "Signed in as" }, session.known().name),
    el("button", { type: "button", onclick: leave }, "Sign out"),
  );
  nav.hidden = caller.hidden = false;
}

addEventListener("hashchange", show);
addEventListener("signed-out", (event) => {
  if (!session.known()) return; // a wrong token in the form is told there
  refused = event.detail ?? "The token is no longer good.";
  show();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part after # is the view's
  main.focus();
});
show();
