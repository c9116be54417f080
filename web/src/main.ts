// The page of `heapwise serve`: draws whatever state the URL names.

import "./style/main.css";
import { listen } from "./keys.ts";
import { drawSource } from "./screens/source.ts";
import { drawSources } from "./screens/sources.ts";
import { followLinks, onState } from "./state/navigate.ts";
import { applyLanguage } from "./strings.ts";
import { applyTheme } from "./state/theme.ts";

applyTheme();
applyLanguage();
listen();
followLinks();
const root = document.getElementById("app") as HTMLElement;
onState((state) => void (state.source ? drawSource(root, state) : drawSources(root)));
